package command

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"colonnade/forwarding/hop"
	"colonnade/node"
)

// NodeFlags are the settings that entry and colo have in common.
type NodeFlags struct {
	config     node.Config
	etcd       string
	adminHosts string
	keyFile    string
	debug      bool
	multiplex  bool
}

// EtcdFlag returns the flag that names the members of etcd.
func EtcdFlag(urls *string) cli.Flag {
	return &cli.StringFlag{Name: "etcd", Value: "http://127.0.0.1:2379", Destination: urls, Usage: "`URLS` of etcd, separated by commas"}
}

// maxConnsPerIP bounds -max-connections-per-ip: an entry accepts no more connections in all.
const maxConnsPerIP = 1 << 16

// MaxConnsPerIPFlag returns the flag that limits the connections of one client.
func MaxConnsPerIPFlag(n *int) cli.Flag {
	return &cli.IntFlag{
		Name: "max-connections-per-ip", DefaultText: "1024, or three quarters of -max-connections if that is less", Destination: n, Validator: checkMaxConns,
		Usage: "largest `NUMBER` of connections from one IP address, or from one IPv6 /64 network",
	}
}

func checkMaxConns(n int) error {
	if n < 1 || n > maxConnsPerIP {
		return fmt.Errorf("must be a number from 1 to %d", maxConnsPerIP)
	}
	return nil
}

// maxMetricsAccounts bounds -metrics-accounts: each account has a dozen series or more at each node.
const maxMetricsAccounts = 10_000

func checkMetricsAccounts(n int) error {
	if n < 0 || n > maxMetricsAccounts {
		return fmt.Errorf("must be a number from 0 to %d", maxMetricsAccounts)
	}
	return nil
}

// AdminTokensFlag returns the flag that turns the admin API on.
func AdminTokensFlag(file *string) cli.Flag {
	return &cli.StringFlag{Name: "admin-tokens", Destination: file,
		Usage: "`FILE` with the tokens of the admin API: NAME TOKEN a line, mode 0600; reloaded when it changes (default: none, there is no API)"}
}

// SinkFlag returns the flag that names receivers of events.
func SinkFlag(urls *[]string) cli.Flag {
	return &cli.StringSliceFlag{Name: "sink", Destination: urls,
		Usage: "`URL` to which the events of -data-dir are sent, such as file:/var/log/events.jsonl or https://HOST/PATH?credential=env:NAME; repeatable; the node serves without a sink that is wrong, and says so in log and status (docs/sinks.md)"}
}

// CredentialsDirFlag returns the flag that names the directory of the credentials that documents name.
func CredentialsDirFlag(dir *string) cli.Flag {
	return &cli.StringFlag{Name: "credentials-dir", Destination: dir,
		Usage: "`DIRECTORY` below which endpoints and sinks may name files as credential: file:PATH (default: none, such credentials are refused)"}
}

// Flags returns the flags that set f, with the default addresses of the listener for requests and of the admin listener.
func (f *NodeFlags) Flags(listen, admin string) []cli.Flag {
	host, _ := os.Hostname()
	c := &f.config
	return append(f.ownFlags(listen, "", admin),
		&cli.StringFlag{Name: "node", Value: host, Destination: &c.Node, Usage: "`NAME` of this node, unique in the fleet"},
		&cli.StringFlag{Name: "advertise-address", Destination: &c.AdvertiseAddress,
			Usage: "`HOST:PORT` at which other nodes reach -listen (default: the address it is bound to)"},
		EtcdFlag(&f.etcd),
		&cli.StringFlag{Name: "key-file", Destination: &f.keyFile,
			Usage: "`FILE` with the keys that all nodes of the fleet share: base64 of 32 bytes a line, mode 0600 (required)"},
		&cli.StringFlag{Name: "data-dir", Destination: &c.DataDir,
			Usage: "`DIRECTORY` for events, the last good documents and the lease (default: none, nothing is kept)"},
		&cli.StringFlag{Name: "peer-tls-cert", Destination: &c.PeerTLS.Cert,
			Usage: "PEM `FILE` with the certificate that names this node to other nodes; reloaded when it changes"},
		&cli.StringFlag{Name: "peer-tls-key", Destination: &c.PeerTLS.Key, Usage: "PEM `FILE` with the key of -peer-tls-cert"},
		&cli.StringFlag{Name: "peer-tls-ca", Destination: &c.PeerTLS.CA,
			Usage: "PEM `FILE` with the authorities that must have signed the certificates of other nodes"},
		&cli.BoolFlag{Name: "multiplex", Value: true, Destination: &f.multiplex,
			Usage: "send requests to other nodes over links, a few shared connections, instead of a connection for each running request"},
	)
}

// PlaceFlags returns the flags that set f for a process that serves one place by itself. listenText describes the default of -listen.
func (f *NodeFlags) PlaceFlags(listen, listenText, admin string) []cli.Flag {
	c := &f.config
	return append(f.ownFlags(listen, listenText, admin),
		&cli.StringFlag{Name: "node", Destination: &c.Node, DefaultText: "the name of the colo and -1", Usage: "`NAME` of this process in events"},
		&cli.StringFlag{Name: "data-dir", Destination: &c.DataDir, Usage: "`DIRECTORY` for events, and for the certificates of -tls-domain, which requires it (default: none, no events are kept)"},
	)
}

// ownFlags returns the flags of each process that serves requests.
func (f *NodeFlags) ownFlags(listen, listenText, admin string) []cli.Flag {
	c := &f.config
	return []cli.Flag{
		&cli.StringFlag{Name: "listen", Value: listen, DefaultText: listenText, Destination: &c.Listen, Usage: "`ADDRESS` for requests"},
		&cli.StringFlag{Name: "admin", Value: admin, Destination: &c.Admin, Usage: "`ADDRESS` for metrics, health and debug pages"},
		&cli.StringFlag{Name: "admin-hosts", Destination: &f.adminHosts,
			Usage: "`NAMES` under which -admin is reached, separated by commas, besides localhost, IP addresses and the names of the node and its machine"},
		AdminTokensFlag(&c.AdminTokens),
		SinkFlag(&c.Sinks),
		CredentialsDirFlag(&c.CredentialsDir),
		&cli.DurationFlag{Name: "drain", Value: time.Minute, Destination: &c.Drain, Usage: "longest time that running requests may take after SIGTERM"},
		&cli.IntFlag{Name: "max-connections", Destination: &c.MaxConns, HideDefault: true,
			Usage: "largest `NUMBER` of connections to -listen (default: as many as the limit of open files allows)"},
		&cli.IntFlag{Name: "metrics-accounts", Destination: &c.MetricsAccounts, Validator: checkMetricsAccounts,
			Usage: "largest `NUMBER` of accounts with metrics of their own, by requests, refusals, tokens and cost; all others are counted together"},
		&cli.BoolFlag{Name: "debug", Destination: &f.debug, Usage: "log at level debug"},
	}
}

// Config returns the settings, once the command line has been parsed. It reads the key file.
func (f *NodeFlags) Config() (node.Config, error) {
	if f.keyFile == "" {
		return node.Config{}, errors.New("flag -key-file is missing: all nodes of a fleet share one; make it with: (umask 077; head -c 32 /dev/urandom | base64 > fleet.key)")
	}
	keys, err := hop.ReadKeys(f.keyFile)
	if err != nil {
		return node.Config{}, err
	}
	if f.config.Node == "" {
		return node.Config{}, fmt.Errorf("flag -node is missing: every node has a name of its own")
	}
	c := f.PlaceConfig()
	c.NoLinks = !f.multiplex
	c.Etcd, c.Keys, c.KeyFile = strings.Split(f.etcd, ","), keys, f.keyFile
	return c, nil
}

// PlaceConfig returns the settings of PlaceFlags, once the command line has been parsed.
func (f *NodeFlags) PlaceConfig() node.Config {
	level := slog.LevelInfo
	if f.debug {
		level = slog.LevelDebug
	}
	c := f.config
	if f.adminHosts != "" {
		c.AdminHosts = strings.Split(f.adminHosts, ",")
	}
	c.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	return c
}
