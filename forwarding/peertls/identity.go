package peertls

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
)

// Role is what a node is in its fleet.
type Role string

// The roles of nodes.
const (
	RoleEntry Role = "entry"
	RoleColo  Role = "colo"
)

// Identity is who a node is. Its certificate says so in a URI (subject alternative name), and may say more than one.
type Identity struct {
	Role Role
	Colo string // of a colo server
	Node string
}

// uriScheme begins every such URI.
const uriScheme = "colonnade:"

// String is the URI: colonnade:entry/NODE or colonnade:colo/COLO/NODE.
func (i Identity) String() string {
	if i.Role == RoleColo {
		return uriScheme + string(i.Role) + "/" + i.Colo + "/" + i.Node
	}
	return uriScheme + string(i.Role) + "/" + i.Node
}

// identityURIs returns the URIs in a certificate that name nodes.
func identityURIs(c *x509.Certificate) []string {
	var all []string
	for _, uri := range c.URIs {
		if text := uri.String(); strings.HasPrefix(text, uriScheme) {
			all = append(all, text)
		}
	}
	return all
}

// ErrPlainHTTP is a client that speaks HTTP where TLS is expected.
var ErrPlainHTTP = errors.New("it speaks plain HTTP")

// errNoCertificate is a peer that has shown none.
var errNoCertificate = errors.New("it showed no certificate")

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

// parseIdentity reads a URI of ours.
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

// hasRole returns an error unless a certificate names a node of the fleet.
func hasRole(c *x509.Certificate) error {
	if len(Identities(c)) > 0 {
		return nil
	}
	return fmt.Errorf("expected a certificate for %[1]sentry/NODE or %[1]scolo/COLO/NODE, got one %[2]s",
		uriScheme, Describe(c))
}

// Describe says what a certificate is, for whoever has to look for it.
func Describe(c *x509.Certificate) string {
	who := truncate(strings.Join(identityURIs(c), " and "))
	if who == "" {
		who = "that names no node (it has no URI that begins with " + uriScheme + ")"
	} else {
		who = "for " + who
	}
	return fmt.Sprintf("%s, issued by %q, good from %s to %s", who, truncate(c.Issuer.String()),
		c.NotBefore.UTC().Format(timeFormat), c.NotAfter.UTC().Format(timeFormat))
}

// truncate bounds what of a stranger's words goes into a log.
func truncate(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most] + " …"
	}
	return s
}

const timeFormat = "2006-01-02T15:04:05Z"
