package node

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"colonnade/fleet"
)

// check says which settings no node can run with. key is where the node will register.
func (c *Config) check(key string) error {
	if err := fleet.CheckKey(key); err != nil {
		return fmt.Errorf("this node would register as %q, which is no name (flags -node, -colo): %w", key, err)
	}
	if c.Drain < 0 {
		return fmt.Errorf("flag -drain %s: must not be negative", c.Drain)
	}
	if c.Address != "" {
		host, port, err := net.SplitHostPort(c.Address)
		if err != nil || host == "" || port == "" || port == "0" {
			return fmt.Errorf("flag -address %q: must be host:port, as other nodes reach this one", c.Address)
		}
	}
	for _, endpoint := range c.Etcd {
		if err := checkEndpoint(endpoint); err != nil {
			return fmt.Errorf("flag -etcd %q: %w", strings.Join(c.Etcd, ","), err)
		}
	}
	return nil
}

// checkEndpoint accepts what the client of etcd does: host:port, or a URL.
func checkEndpoint(endpoint string) error {
	if endpoint == "" {
		return errors.New("must be URLs such as http://127.0.0.1:2379, separated by commas")
	}
	if !strings.Contains(endpoint, "://") {
		return nil
	}
	u, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return errors.New("is no URL")
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "unix" && u.Scheme != "unixs":
		return fmt.Errorf("the scheme %q is not known: use http:// or https://", u.Scheme)
	}
	return nil
}

// address is where others reach the node: what -listen is bound to, if -address does not say. Where that is every
// address of this machine, it is the one from which etcd is reached, since the other nodes reach etcd too.
func (p *parts) address() string {
	if p.config.Address != "" {
		return p.config.Address
	}
	bound := p.requests.Addr().String()
	host, port, err := net.SplitHostPort(bound)
	if err != nil || !net.ParseIP(host).IsUnspecified() {
		return bound
	}
	for _, endpoint := range p.config.Etcd {
		if own, err := addressTowards(endpoint); err == nil {
			return net.JoinHostPort(own, port)
		}
	}
	p.config.Logger.Warn("it is not known under which address other nodes reach this one: set -address",
		"registered", bound)
	return bound
}

// addressTowards returns the address of this machine that the kernel would speak to an endpoint of etcd from. Nothing
// is sent.
func addressTowards(endpoint string) (string, error) {
	target := endpoint
	if u, err := url.Parse(endpoint); err == nil && u.Host != "" {
		target = u.Host
	}
	if _, _, err := net.SplitHostPort(target); err != nil {
		target = net.JoinHostPort(strings.Trim(target, "[]"), "2379")
	}
	c, err := net.Dial("udp", target)
	if err != nil {
		return "", err
	}
	defer c.Close()
	host, _, err := net.SplitHostPort(c.LocalAddr().String())
	return host, err
}
