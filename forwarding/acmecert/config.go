package acmecert

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/mail"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/crypto/acme"
	"golang.org/x/net/idna"
)

// maxDomains bounds the number of names. Each has a certificate of its own.
const maxDomains = 100

// Config is what a [Source] needs. An empty list of domains stands for no certificates by ACME.
type Config struct {
	Domains    []string       // names of the listener; the terms of service of the authority count as accepted
	Email      string         // at which the authority may reach the operator; empty = none
	Directory  string         // URL of the authority; empty = Let's Encrypt
	CacheDir   string         // for the account key and the certificates; it is made if it does not exist
	HTTPListen string         // host:port of a listener for the challenge http-01, to which port 80 leads; empty = none
	Roots      *x509.CertPool // authorities of the directory's own certificate; nil = those of the system
	Logger     *slog.Logger
}

// Check returns an error that names the flag, its value and what to do, unless a [Source] can run with c.
func (c *Config) Check() error {
	if len(c.Domains) == 0 {
		return c.checkUnused()
	}
	if _, err := c.names(); err != nil {
		return err
	}
	if len(c.Domains) > maxDomains {
		return fmt.Errorf("flag -tls-domain: %d names, at most %d are possible", len(c.Domains), maxDomains)
	}
	if c.CacheDir == "" {
		return errors.New("flag -tls-domain needs -data-dir, where the certificates are kept: authorities limit how many they issue in a week, and without it each start would ask for new ones")
	}
	if address, err := mail.ParseAddress(c.Email); c.Email != "" && (err != nil || address.Address != c.Email) {
		return fmt.Errorf("flag -tls-email %q: must be an e-mail address, such as ops@example.org", c.Email)
	}
	if u, err := url.Parse(c.directory()); err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("flag -tls-acme %q: must be the URL of an ACME directory, which begins with https://", c.Directory)
	}
	if c.HTTPListen != "" {
		if _, _, err := net.SplitHostPort(c.HTTPListen); err != nil {
			return fmt.Errorf("flag -tls-http-listen %q: must be host:port, such as :80", c.HTTPListen)
		}
	}
	return nil
}

// checkUnused refuses settings that have no effect without names.
func (c *Config) checkUnused() error {
	for flag, value := range map[string]string{"-tls-email": c.Email, "-tls-acme": c.Directory, "-tls-http-listen": c.HTTPListen} {
		if value != "" {
			return fmt.Errorf("flag %s %q has no effect without -tls-domain: name the hosts that need a certificate, or delete it", flag, value)
		}
	}
	return nil
}

func (c *Config) directory() string { return cmp.Or(c.Directory, acme.LetsEncryptURL) }

// names returns the domains as they stand in handshakes, each once.
func (c *Config) names() ([]string, error) {
	var names []string
	for _, domain := range c.Domains {
		name, err := serverName(domain)
		if err != nil {
			return nil, fmt.Errorf("flag -tls-domain %q: %w", domain, err)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// serverName returns a domain in lower case, and in ASCII (Punycode).
func serverName(domain string) (string, error) {
	switch {
	case net.ParseIP(strings.Trim(domain, "[]")) != nil:
		return "", errors.New("is an IP address: certificates by ACME are for names; give a name that leads to this address, or use -tls-cert")
	case strings.HasPrefix(domain, "*."):
		return "", errors.New("is a wildcard, which authorities verify in DNS only: give each name, or use -tls-cert")
	case strings.ContainsAny(domain, ":/"):
		return "", errors.New("must be a name alone, such as api.example.org, without scheme, port or path")
	}
	name, err := idna.Lookup.ToASCII(strings.TrimSuffix(domain, "."))
	if err != nil || !strings.Contains(name, ".") || strings.Contains("."+name+".", "..") {
		return "", errors.New("is not the full name of a host, such as api.example.org")
	}
	return name, nil
}
