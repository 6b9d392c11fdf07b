package node

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/forwarding/server"
)

// check refuses settings that no node can run with. key is the key that the node will register.
func (c *Config) check(key string) error {
	if err := document.CheckKey(key); err != nil {
		return fmt.Errorf("this node would register as %q, which is not a valid key (flags -node, -colo): %w", key, err)
	}
	if c.Drain < 0 {
		return fmt.Errorf("flag -drain %s: must not be negative", c.Drain)
	}
	if err := c.checkSinks(); err != nil {
		return err
	}
	if err := c.checkCredentialsDir(); err != nil {
		return fmt.Errorf("flag -credentials-dir: %w", err)
	}
	if c.MaxConns < 0 || c.MaxConns > server.MaxConns {
		return fmt.Errorf("flag -max-connections %d: must be a number from 1 to %d, or 0 for as many as open files allow", c.MaxConns, server.MaxConns)
	}
	if c.AdvertiseAddress != "" {
		host, port, err := net.SplitHostPort(c.AdvertiseAddress)
		if err != nil || host == "" || port == "" || port == "0" {
			return fmt.Errorf("flag -advertise-address %q: must be host:port, as other nodes reach this one", c.AdvertiseAddress)
		}
	}
	for _, host := range c.AdminHosts {
		if host == "" || strings.ContainsAny(host, " /:*@") {
			return fmt.Errorf("flag -admin-hosts %q: must be names of hosts, without a port, separated by commas", strings.Join(c.AdminHosts, ","))
		}
	}
	for _, endpoint := range c.Etcd {
		if err := checkEndpoint(endpoint); err != nil {
			return fmt.Errorf("flag -etcd %q: %w", strings.Join(c.Etcd, ","), err)
		}
	}
	return nil
}

// ownHosts returns the names of this node: those in its flags, and that of its machine.
func (c *Config) ownHosts() []string {
	own := append([]string{c.Node, c.Admin, c.AdvertiseAddress}, c.AdminHosts...)
	if machine, err := os.Hostname(); err == nil {
		own = append(own, machine)
	}
	return slices.DeleteFunc(own, func(host string) bool { return host == "" || host[0] == ':' })
}

// checkEndpoint accepts what the etcd client accepts: host:port, or a URL.
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
		return errors.New("is not a valid URL")
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "unix" && u.Scheme != "unixs":
		return fmt.Errorf("unknown scheme %q: use http:// or https://", u.Scheme)
	}
	return nil
}

// ParsePosition reads the value of the flag -position; nil stands for an empty one.
func ParsePosition(flag string) (position *fleet.Position, err error) {
	if flag == "" {
		return nil, nil
	}
	p, err := fleet.ParsePosition(flag)
	if err != nil {
		return nil, fmt.Errorf("flag -position %q: %w", flag, err)
	}
	return &p, nil
}

// checkSettings refuses settings that no entry can run with.
func (c *EntryConfig) checkSettings() error {
	key := fleet.KindEntry.Key(c.Node)
	if err := c.check(key); err != nil {
		return err
	}
	registered := fleet.EntryNode{Address: "127.0.0.1:1", Region: c.Region, Position: c.Position}
	if err := document.Check(key, encode(registered)); err != nil {
		return fmt.Errorf("flags -region, -position: %w", err)
	}
	return nil
}

// checkSettings refuses settings that no colo server can run with.
func (c *ColoConfig) checkSettings() error {
	return c.check("servers/" + c.Colo + "/" + c.Node)
}

// checkCredentialsDir refuses a directory that does not exist, or in which a document could name files of the data directory.
func (c *Config) checkCredentialsDir() error {
	if c.CredentialsDir == "" {
		return nil
	}
	dir, err := realPath(c.CredentialsDir)
	if err != nil {
		return err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%s is not a directory", c.CredentialsDir)
	}
	if c.DataDir == "" {
		return nil
	}
	data, err := realPath(c.DataDir)
	if errors.Is(err, fs.ErrNotExist) { // it will be made: by its name
		data, err = filepath.Abs(c.DataDir)
	}
	if err != nil {
		return err
	}
	if below, err := filepath.Rel(dir, data); err == nil && filepath.IsLocal(below) {
		return fmt.Errorf("%s has the data directory %s in it; choose a directory that holds nothing but credentials",
			c.CredentialsDir, c.DataDir)
	}
	return nil
}

// realPath returns the absolute path of a directory, without symbolic links.
func realPath(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// ownFiles returns the paths of the files with secrets of this node.
func (c *Config) ownFiles() []string {
	files := []string{c.KeyFile, c.AdminTokens, c.PeerTLS.Key, c.PeerTLS.Cert, c.PeerTLS.CA, c.clientTLS.Key, c.clientTLS.Cert}
	return slices.DeleteFunc(files, func(path string) bool { return path == "" })
}

// advertiseAddress returns the host:port at which other nodes reach this one: -advertise-address, or else the address that
// -listen is bound to. If that is the wildcard address, its host is replaced by the local address of the route to etcd,
// since the other nodes reach etcd too.
func (r *runtime) advertiseAddress() string {
	if r.config.AdvertiseAddress != "" {
		return r.config.AdvertiseAddress
	}
	bound := r.requests.Addr().String()
	host, port, err := net.SplitHostPort(bound)
	if err != nil || !net.ParseIP(host).IsUnspecified() {
		return bound
	}
	for _, endpoint := range r.config.Etcd {
		if own, err := LocalAddress(endpoint); err == nil {
			return net.JoinHostPort(own, port)
		}
	}
	r.config.Logger.Warn("cannot determine advertise address; set -advertise-address", "registered", bound)
	return bound
}

// LocalAddress returns the local address of the route to an endpoint of etcd. It sends nothing.
func LocalAddress(endpoint string) (string, error) {
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
