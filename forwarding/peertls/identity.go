package peertls

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
)

// Role is the part of a node in its fleet.
type Role string

// The roles of nodes.
const (
	RoleEntry Role = "entry"
	RoleColo  Role = "colo"
)

// Identity names a node. A certificate carries it as a URI (subject alternative name), and may carry several.
type Identity struct {
	Role Role
	Colo string // of a colo server
	Node string
}

// uriScheme begins the URI of an identity.
const uriScheme = "colonnade:"

// String returns the URI: colonnade:entry/NODE or colonnade:colo/COLO/NODE.
func (i Identity) String() string {
	if i.Role == RoleColo {
		return uriScheme + string(i.Role) + "/" + i.Colo + "/" + i.Node
	}
	return uriScheme + string(i.Role) + "/" + i.Node
}

// identityURIs returns the URIs of identities in a certificate.
func identityURIs(c *x509.Certificate) []string {
	var all []string
	for _, uri := range c.URIs {
		if text := uri.String(); strings.HasPrefix(text, uriScheme) {
			all = append(all, text)
		}
	}
	return all
}

// ErrPlainHTTP is the error of a client that uses plain HTTP where TLS is required.
var ErrPlainHTTP = errors.New("it uses plain HTTP")

// errNoCertificate is the error of a peer without a certificate.
var errNoCertificate = errors.New("it has no certificate")

// CheckCertificate returns an error unless certificate c names the identity.
func (i Identity) CheckCertificate(c *x509.Certificate) error {
	who := i.String()
	for _, text := range identityURIs(c) {
		if text == who {
			return nil
		}
	}
	return fmt.Errorf("expected a certificate for %s, got one %s", who, Describe(c))
}

// Identities returns the nodes that certificate c names.
func Identities(c *x509.Certificate) []Identity {
	var all []Identity
	for _, text := range identityURIs(c) {
		if id, ok := parseIdentity(text); ok {
			all = append(all, id)
		}
	}
	return all
}

// parseIdentity parses the URI of an identity.
func parseIdentity(text string) (Identity, bool) {
	role, name, _ := strings.Cut(strings.TrimPrefix(text, uriScheme), "/")
	switch Role(role) {
	case RoleEntry:
		return Identity{Role: RoleEntry, Node: name}, name != ""
	case RoleColo:
		colo, node, _ := strings.Cut(name, "/")
		return Identity{Role: RoleColo, Colo: colo, Node: node}, colo != "" && node != ""
	}
	return Identity{}, false
}

// checkNamesNode returns an error unless a certificate names a node of the fleet.
func checkNamesNode(c *x509.Certificate) error {
	if len(Identities(c)) > 0 {
		return nil
	}
	return fmt.Errorf("expected a certificate for %[1]sentry/NODE or %[1]scolo/COLO/NODE, got one %[2]s",
		uriScheme, Describe(c))
}

// Describe returns what identifies a certificate to an operator: the nodes that it names, its issuer and its validity.
func Describe(c *x509.Certificate) string {
	who := truncate(strings.Join(identityURIs(c), " and "))
	if who == "" {
		who = "that names no node (it has no URI that begins with " + uriScheme + ")"
	} else {
		who = "for " + who
	}
	return fmt.Sprintf("%s, issued by %q, valid from %s to %s", who, truncate(c.Issuer.String()),
		c.NotBefore.UTC().Format(timeFormat), c.NotAfter.UTC().Format(timeFormat))
}

// truncate bounds how much of a foreign certificate's text goes into a log.
func truncate(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most] + " …"
	}
	return s
}

const timeFormat = "2006-01-02T15:04:05Z"
