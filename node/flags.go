package node

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"colonnade/forwarding"
)

// Flags are the settings that both binaries have. Each is also read from COLONNADE_… in the environment.
type Flags struct {
	set     *flag.FlagSet
	listen  *string
	admin   *string
	address *string
	node    *string
	etcd    *string
	keyFile *string
	events  *string
	peerTLS forwarding.PeerFiles
	drain   *time.Duration
	debug   *bool
	version *bool
	notYet  []string
}

// NewFlags adds the common flags to set.
func NewFlags(set *flag.FlagSet, listen, admin string) *Flags {
	host, _ := os.Hostname()
	f := &Flags{
		set:     set,
		listen:  set.String("listen", listen, "`address` for requests"),
		admin:   set.String("admin", admin, "`address` for metrics, health and debug pages"),
		address: set.String("address", "", "`host:port` under which other nodes reach -listen (default: what it is bound to)"),
		node:    set.String("node", host, "this node's `name`, another one for each node"),
		etcd:    set.String("etcd", "http://127.0.0.1:2379", "`URLs` of etcd, separated by commas"),
		keyFile: set.String("key-file", "", "`file` with the fleet's keys: base64 of 32 bytes a line, mode 0600"),
		events:  set.String("events", "", "`directory` for events and the last good documents (default: nothing is kept)"),
		drain:   set.Duration("drain", time.Minute, "how long running requests may go on after SIGTERM"),
		debug:   set.Bool("debug", false, "log more"),
		version: set.Bool("version", false, "print the version, and end"),
	}
	set.StringVar(&f.peerTLS.Cert, "peer-tls-cert", "", "`file` with this node's certificate for other nodes, which names it: PEM; read again when it changes")
	set.StringVar(&f.peerTLS.Key, "peer-tls-key", "", "`file` with the key of -peer-tls-cert")
	set.StringVar(&f.peerTLS.CA, "peer-tls-ca", "", "`file` with the certificates of the authorities that other nodes' certificates must come from")
	return f
}

// The most connections that one address may have to an entry. So many are all that an entry takes.
const (
	defaultPerAddress = 1024
	MostPerAddress    = 1 << 16
)

// PerAddressFlag adds the flag for [EntryConfig.PerAddress].
func PerAddressFlag(set *flag.FlagSet) *int {
	n := defaultPerAddress
	usage := fmt.Sprintf("the largest `number` of connections from one address, or from one IPv6 network (/64) (default %d)", n)
	set.Func("connections-per-address", usage, func(text string) error {
		given, err := strconv.Atoi(text)
		if err != nil || given < 1 || given > MostPerAddress {
			return fmt.Errorf("must be a number from 1 to %d", MostPerAddress)
		}
		n = given
		return nil
	})
	return &n
}

// NotYet adds a flag that has no effect in this version, and why. Whoever sets it is told so.
func (f *Flags) NotYet(name, why string) {
	f.set.String(name, "", "no effect in this version: "+why)
	f.notYet = append(f.notYet, name)
}

// Parse reads the arguments, and for flags that they do not set, the environment: -key-file is COLONNADE_KEY_FILE.
func (f *Flags) Parse(args []string, env func(string) (string, bool)) error {
	if err := f.set.Parse(args); err != nil {
		return err
	}
	if f.set.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: settings are flags, see -h", f.set.Arg(0))
	}
	if *f.version {
		fmt.Fprintln(os.Stdout, Version())
		return flag.ErrHelp
	}
	given := map[string]bool{}
	f.set.Visit(func(fl *flag.Flag) { given[fl.Name] = true })
	var err error
	f.set.VisitAll(func(fl *flag.Flag) {
		name := "COLONNADE_" + strings.ToUpper(strings.ReplaceAll(fl.Name, "-", "_"))
		if value, ok := env(name); ok && !given[fl.Name] && err == nil && fl.Name != "version" {
			if bad := fl.Value.Set(value); bad != nil {
				err = fmt.Errorf("environment variable %s=%q: %w", name, value, bad)
			}
		}
	})
	return err
}

// Config returns the settings, with the keys read.
func (f *Flags) Config() (Config, error) {
	if *f.keyFile == "" {
		return Config{}, fmt.Errorf("flag -key-file is missing: all nodes of a fleet share one; make it with: (umask 077; head -c 32 /dev/urandom | base64 > fleet.key)")
	}
	keys, err := forwarding.ReadKeys(*f.keyFile)
	if err != nil {
		return Config{}, err
	}
	if *f.node == "" {
		return Config{}, fmt.Errorf("flag -node is missing: every node has a name of its own")
	}
	level := slog.LevelInfo
	if *f.debug {
		level = slog.LevelDebug
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	for _, name := range f.notYet {
		if value := f.set.Lookup(name).Value.String(); value != "" {
			logger.Warn("a flag has no effect in this version", "flag", "-"+name, "value", value)
		}
	}
	return Config{
		Node: *f.node, Listen: *f.listen, Admin: *f.admin, Address: *f.address, Etcd: strings.Split(*f.etcd, ","),
		Dir: *f.events, Keys: keys, PeerTLS: f.peerTLS, Drain: *f.drain,
		Logger: logger,
	}, nil
}
