package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
	"colonnade/node"
	"colonnade/worker"
	"colonnade/worker/adminapi"
	"colonnade/worker/gpu/telemetry"
	"colonnade/worker/process"
	inetcd "colonnade/worker/registration" // this package has a type registration
)

// registering is the settings of the command.
type registering struct {
	c           worker.Config
	store       store
	servers     string // URLs of admin listeners, separated by commas; empty = etcd
	tokenFile   string
	serverCA    string
	dataDir     string
	gpus        string
	etcdSet     bool // on the command line or in the environment
	admin       string
	concurrency string
	set         []string
	models      bool
	debug       bool
	out, notes  io.Writer
}

func newRegister() *cli.Command {
	var r registering
	c := &r.c
	return &cli.Command{
		Name: "register", Usage: "Start an engine or watch one that runs, and register it while it is well",
		ArgsUsage: "[-- COMMAND [ARGUMENT…]]", ArgValidator: func(context.Context, *cli.Command) error { return nil },
		DisableSliceFlagSeparator: true, // values of -set have commas
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "colo", Destination: &c.Colo, Usage: "`COLO` of the engine (required)"},
			&cli.StringFlag{Name: "url", Destination: &c.URL, Usage: "`URL` of the engine, at which the colo servers reach it (required)"},
			&cli.StringFlag{Name: "pool", Destination: &c.Pool, DefaultText: "that of the document of its model, or else the name of its model",
				Usage: "`POOL` that the engine belongs to"},
			&cli.StringFlag{Name: "id", Destination: &c.ID, DefaultText: "host and port of -url", Usage: "`ID` of the endpoint, unique in the colo"},
			&cli.StringFlag{Name: "node", Destination: &c.Node, DefaultText: "name of the machine and port of -url", Usage: "`NAME` of this process, unique in the fleet"},
			&cli.StringFlag{Name: "concurrency", Destination: &r.concurrency, DefaultText: "what the engine says, or else auto",
				Usage: "`NUMBER` of requests that the engine works on at once, or auto"},
			&cli.StringSliceFlag{Name: "set", Destination: &r.set,
				Usage: "`FIELD=VALUE` of the endpoint's document, such as weight=2 or health.path=/ready; a VALUE may be JSON; repeatable"},
			&cli.BoolFlag{Name: "models", Value: true, Destination: &r.models, Usage: "create the documents of the pool and of the engine's models where there are none"},
			r.store.etcdFlag(),
			&cli.StringFlag{Name: "server", Destination: &r.servers,
				Usage: "`URLS` of admin listeners, of colo servers or of colonnade serve, separated by commas, instead of etcd"},
			&cli.StringFlag{Name: "token-file", Destination: &r.tokenFile,
				Usage: "`FILE` with the token for -server, of colonnade keys create -role worker; read for each request, so it may be replaced"},
			&cli.StringFlag{Name: "server-ca", Destination: &r.serverCA, DefaultText: "those of this machine", Usage: "PEM `FILE` with the authorities of -server"},
			&cli.StringFlag{Name: "data-dir", Destination: &r.dataDir,
				Usage: "`DIRECTORY` for the lease, so that this process can be killed and started again at once (default: none, its place is free after 5s)"},
			&cli.StringFlag{Name: "gpus", Value: telemetry.Auto, Destination: &r.gpus, Validator: telemetry.CheckDevices,
				Usage: "`GPUS` of the engine, which the program colonnade-gpus reads: auto finds them, all, off reads none, or names as in CUDA_VISIBLE_DEVICES"},
			&cli.StringFlag{Name: "admin", Value: "127.0.0.1:0", Destination: &r.admin, Usage: "`ADDRESS` for metrics, health and debug pages; port 0 is any free one"},
			&cli.BoolFlag{Name: "restart", Value: true, Destination: &c.Restart,
				Usage: "start the engine again when it has ended by itself: after 1s, and after twice as long each time, up to 1m"},
			&cli.DurationFlag{Name: "hung-after", Value: worker.DefaultHungAfter, Destination: &c.HungAfter, Validator: notNegative,
				Usage: "time without an answer to health checks after which the engine is ended and started again; 0: never"},
			&cli.DurationFlag{Name: "drain", Value: time.Minute, Destination: &c.Drain, Validator: notNegative, Usage: "longest time that running requests may take after SIGTERM"},
			&cli.DurationFlag{Name: "stop-timeout", Value: 30 * time.Second, Destination: &c.StopTimeout, Validator: notNegative,
				Usage: "longest time that the engine may take to end, before it is killed"},
			&cli.DurationFlag{Name: "start-timeout", Destination: &c.StartTimeout, Validator: notNegative,
				Usage: "longest time from the start of the engine to its first answer, before it is ended and started again; 0: any"},
			&cli.StringFlag{Name: "kill-command", Destination: &c.KillCommand,
				Usage: "`COMMAND` of a shell that is run when the engine is killed, such as \"docker kill NAME\" for a container, which no signal reaches"},
			&cli.BoolFlag{Name: "debug", Destination: &r.debug, Usage: "log at level debug"},
		},
		Description: `With a COMMAND, starts the engine, waits until it answers, finds out what it is and which models
it serves, and registers it: colo servers send it requests from then on. Without one, watches an
engine that runs already, and never stops it.

While the engine does not answer, or has ended, it stays registered without slots. The first
SIGTERM takes it out, waits until its requests have ended (-drain), and stops it (-stop-timeout);
the second one kills it. Its output follows "engine | " on the stream that it was written to.

The exit status is that of the engine, 128+n if the signal n has ended it, and 0 if SIGTERM has.
With -restart, only the engine that is stopped ends the command. 127: the COMMAND was not found.

Examples:
  colonnade register -colo ams -url http://10.0.0.7:8000 -- vllm serve meta-llama/Llama-3.1-8B
  colonnade register -colo ams -pool chat -url http://10.0.0.7:8000 -concurrency 64
  colonnade register -server http://10.0.0.2:9080 -token-file gpus.key -colo ams \
    -url http://10.0.0.7:8000 -- llama-server -m qwen3-8b.gguf --host 0.0.0.0 --port 8000
  colonnade register -colo ams -url http://10.0.0.7:8000 -set weight=2 -set health.interval=2s \
    -- docker run --rm --gpus all -p 8000:8000 vllm/vllm-openai --model Qwen/Qwen3-8B`,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			c.Command, r.etcdSet = cmd.Args().Slice(), cmd.IsSet("etcd")
			r.out, r.notes = cmd.Writer, cmd.ErrWriter
			return r.run(ctx)
		},
	}
}

// run registers an engine until ctx is done, or the engine ends for good.
func (r *registering) run(ctx context.Context) error {
	if err := r.complete(); err != nil {
		return err
	}
	closeRegistry, err := r.openRegistry()
	if err != nil {
		return err
	}
	defer func() { _ = closeRegistry() }()
	r.c.GPUs = telemetry.Source(telemetry.Config{Devices: r.gpus, Logger: r.c.Logger})
	if r.c.Admin, err = net.Listen("tcp", r.admin); err != nil {
		return fmt.Errorf("cannot listen (flag -admin %s): %w; choose another address, or port 0", r.admin, err)
	}
	defer r.c.Admin.Close()
	r.c.AdminAddress = r.reachable(r.c.Admin.Addr().String())
	w, err := worker.New(r.c)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.notes, "%sadmin pages: http://%s\n", notePrefix, r.c.Admin.Addr())
	command.BeforeKill(ctx, w.Abort)
	// The engine outlives the reader of the output, and inherits that: if this process is killed, its next line does not end it. systemd has the same
	// default.
	signal.Ignore(syscall.SIGPIPE)
	defer signal.Reset(syscall.SIGPIPE)
	ctx, cancel := untilHangup(ctx)
	defer cancel()
	return withEngineStatus(w.Run(ctx))
}

// openRegistry finds out where the documents stand. A flag goes before the environment, which may name both.
func (r *registering) openRegistry() (closeRegistry func() error, err error) {
	byServer, err := r.byServer()
	if err != nil {
		return nil, err
	}
	if byServer {
		r.c.Registry, err = adminapi.New(adminapi.Config{
			Servers: strings.Split(r.servers, ","), Token: adminapi.TokenFile(r.tokenFile), CAFile: r.serverCA, Logger: r.c.Logger,
		})
		return func() error { return nil }, err
	}
	client, err := r.store.dial()
	if err != nil {
		return nil, err
	}
	r.c.Registry = inetcd.InEtcd(inetcd.Config{
		Client: client, Colo: r.c.Colo, Node: r.c.Node, Machine: r.c.Machine, Dir: r.dataDir, Logger: r.c.Logger,
	})
	return client.Close, nil
}

// byServer reports whether a server has the documents, and not etcd.
func (r *registering) byServer() (bool, error) {
	switch {
	case r.servers == "" && r.tokenFile != "":
		return false, fmt.Errorf("flag -token-file %s is for -server, which is missing: give the URL of the admin listener of a colo server or of colonnade serve", r.tokenFile)
	case r.servers == "":
		return false, nil
	case r.etcdSet && os.Getenv("COLONNADE_ETCD") != r.store.endpoints:
		return false, errors.New("-server and -etcd exclude each other: a server has the documents on behalf of this process, or etcd has them")
	case r.tokenFile == "":
		return false, errors.New("flag -token-file is missing: the file with the token for -server; make one with: (umask 077; colonnade keys create -role worker > gpus.key)")
	}
	return true, nil
}

// notePrefix stands before each line of the command, beside those of the engine.
const notePrefix = "colonnade | "

// complete reads the flags.
func (r *registering) complete() error {
	c := &r.c
	level := slog.LevelInfo
	if r.debug {
		level = slog.LevelDebug
	}
	c.Logger = slog.New(slog.NewTextHandler(r.notes, &slog.HandlerOptions{Level: level}))
	c.Report = func(line string) { fmt.Fprintln(r.notes, notePrefix+command.Printable(line)) }
	c.Stdout, c.Stderr = r.out, r.notes
	c.NoModels, c.Version = !r.models, node.Version()
	if err := r.setPlace(); err != nil {
		return err
	}
	return r.setFields()
}

// untilHangup returns a context that ends with the terminal as well, unless that is ignored (nohup).
func untilHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return ctx, func() {}
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// withEngineStatus has the process end with the status of its engine.
func withEngineStatus(err error) error {
	var exit *worker.ExitError
	var start *process.StartError
	switch {
	case errors.As(err, &exit):
		return command.WithStatus(exit.Status, err)
	case errors.As(err, &start):
		return command.WithStatus(start.Status, err)
	}
	return err
}
