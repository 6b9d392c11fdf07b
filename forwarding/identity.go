package forwarding

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

// identityScheme begins every such URI.
const identityScheme = "colonnade:"

// String is the URI: colonnade:entry/NODE or colonnade:colo/COLO/NODE.
func (i Identity) String() string {
	if i.Role == RoleColo {
		return identityScheme + string(i.Role) + "/" + i.Colo + "/" + i.Node
	}
	return identityScheme + string(i.Role) + "/" + i.Node
}

// identities are the URIs of ours in a certificate.
func identities(c *x509.Certificate) []string {
	var all []string
	for _, uri := range c.URIs {
		if text := uri.String(); strings.HasPrefix(text, identityScheme) {
			all = append(all, text)
		}
	}
	return all
}

// errNoCertificate is a peer that has shown none.
var errNoCertificate = errors.New("it showed no certificate")

// says reports whether a certificate names who, or the error that tells what it does name.
func says(c *x509.Certificate, who string) error {
	named := identities(c)
	for _, text := range named {
		if text == who {
			return nil
		}
	}
	return fmt.Errorf("expected a certificate for %s, got one %s", who, describe(c))
}

// parseIdentity reads a URI of ours.
func parseIdentity(text string) (Identity, bool) {
	role, name, _ := strings.Cut(strings.TrimPrefix(text, identityScheme), "/")
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
	for _, text := range identities(c) {
		if _, ok := parseIdentity(text); ok {
			return nil
		}
	}
	return fmt.Errorf("expected a certificate for %[1]sentry/NODE or %[1]scolo/COLO/NODE, got one %[2]s",
		identityScheme, describe(c))
}

// describe says what a certificate is, for whoever has to look for it.
func describe(c *x509.Certificate) string {
	who := shorten(strings.Join(identities(c), " and "))
	if who == "" {
		who = "that names no node (it has no URI that begins with " + identityScheme + ")"
	} else {
		who = "for " + who
	}
	return fmt.Sprintf("%s, issued by %q, good from %s to %s", who, shorten(c.Issuer.String()),
		c.NotBefore.UTC().Format(stamp), c.NotAfter.UTC().Format(stamp))
}

// shorten bounds what of a stranger's words goes into a log.
func shorten(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most] + " …"
	}
	return s
}

const stamp = "2006-01-02T15:04:05Z"
