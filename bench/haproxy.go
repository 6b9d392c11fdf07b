package bench

import (
	"bytes"
	"context"
	_ "embed" // of the configuration
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"colonnade/bench/child"
)

//go:embed haproxy.cfg.tmpl
var haproxyConfig string

// errNoHAProxy is the error of [HAProxy] if the program is missing.
var errNoHAProxy = errors.New("haproxy is not installed, or not in the PATH; Debian has it: apt-get install haproxy")

// HAProxy is a load balancer that many use already, configured as well as possible for overload. It needs the program
// haproxy, version 2.6 or later.
func HAProxy(ctx context.Context) (Gateway, error) {
	path, err := exec.LookPath("haproxy")
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/haproxy"); err != nil { // which is not in every PATH
			return Gateway{}, errNoHAProxy
		}
	}
	out, err := exec.CommandContext(ctx, path, "-v").Output()
	if err != nil {
		return Gateway{}, fmt.Errorf("cannot run %s -v: %w", path, err)
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(string(out), "HAProxy version "), " ")
	return Gateway{
		Name: "haproxy",
		About: "HAProxy " + version + ": `maxconn` of a server is the engine's number of slots; one queue for all, bounded in number and by " +
			"`timeout queue`; priorities as queue classes; a stick-table that caps the open requests of each key; `leastconn`; " +
			"`http-no-delay`; `abortonclose`; health checks five times a second; a random `Retry-After` of at most the longest wait. " +
			"Its configuration is `bench/haproxy.cfg.tmpl`.",
		Start: func(ctx context.Context, s Setup) (*Target, error) { return startHAProxy(ctx, path, s) },
	}, nil
}

// haproxy is a running HAProxy, a child of this process.
type haproxy struct {
	*child.Process
	dir string
}

func startHAProxy(ctx context.Context, path string, s Setup) (*Target, error) {
	if err := writeHAProxy(s); err != nil {
		return nil, err
	}
	// It inherits its listener, so that no other process can take the port.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot listen for HAProxy: %w", err)
	}
	defer ln.Close()
	file, err := ln.(*net.TCPListener).File()
	if err != nil {
		return nil, fmt.Errorf("cannot hand HAProxy its listener: %w", err)
	}
	defer file.Close()
	cmd := exec.Command(path, "-db", "-f", filepath.Join(s.Dir, "haproxy.cfg")) // -db: in the foreground
	cmd.ExtraFiles = []*os.File{file}
	process, err := child.Start("HAProxy", cmd)
	if err != nil {
		return nil, err
	}
	h := &haproxy{Process: process, dir: s.Dir}
	if err := h.await(ctx); err != nil {
		_ = h.stop() // err is the cause
		return nil, err
	}
	return &Target{URL: "http://" + ln.Addr().String() + "/v1", Held: h.held, Stop: h.stop}, nil
}

// writeHAProxy writes the configuration, and the maps of the open requests and the class of each key.
func writeHAProxy(s Setup) error {
	type server struct {
		Name, Address string
		Slots         int
	}
	setup := struct {
		Dir, RetryAfter      string
		Open, Limit, MaxWait int
		Engines              []server
	}{Dir: s.Dir, Limit: s.Queue.Limit, MaxWait: int(s.Queue.MaxWait.Milliseconds())}
	setup.RetryAfter = fmt.Sprintf("%%[rand(%d),add(1)]", min(max(int(math.Ceil(s.Queue.MaxWait.Seconds())), 1), 32))
	for i, e := range s.Engines {
		u, err := url.Parse(e.URL)
		if err != nil || u.Host == "" {
			return fmt.Errorf("cannot set up HAProxy: the engine's URL %q has no host", e.URL)
		}
		setup.Engines = append(setup.Engines, server{fmt.Sprintf("engine%d", i), u.Host, e.Slots})
	}
	var open, class strings.Builder
	setup.Open = openRequests(s, Account{})
	for _, a := range s.Accounts {
		fmt.Fprintf(&open, "%s %d\n", a.Key, openRequests(s, a))
		fmt.Fprintf(&class, "%s %d\n", a.Key, priorityClass(a.Priority))
	}
	var config bytes.Buffer
	t, err := template.New("haproxy.cfg").Parse(haproxyConfig)
	if err == nil {
		err = t.Execute(&config, setup)
	}
	if err != nil {
		return fmt.Errorf("cannot write HAProxy's configuration: %w", err)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(s.Dir, "haproxy.cfg"), config.Bytes(), 0o600),
		os.WriteFile(filepath.Join(s.Dir, "open.map"), []byte(open.String()), 0o600),
		os.WriteFile(filepath.Join(s.Dir, "class.map"), []byte(class.String()), 0o600),
	)
}

// openRequests is how many open requests an account may have. HAProxy gives slots to the accounts of a class in proportion to
// their open requests, as long as all of those find room. So they are in proportion to the weights, and one account of each
// weight finds room. An account of weight 1 gets no more than there are slots: more would only let it fill the queue. Where
// the class decides, or where one account may fill the queue, the queue is the only bound.
func openRequests(s Setup, a Account) int {
	var weights []int
	sum := 0
	for _, b := range s.Accounts {
		if w := max(b.Weight, 1); !slices.Contains(weights, w) {
			weights = append(weights, w)
			sum += w
		}
	}
	slots, limit := s.slots(), s.Queue.Limit
	most := slots + limit
	if p := s.Queue.PerAccount; p > 0 {
		most = slots + min(p, limit)
	}
	if priorityClass(a.Priority) != 0 || s.Queue.PerAccount >= limit {
		return most
	}
	return min(max(min(slots, (slots+limit)/max(sum, 1)), 1)*max(a.Weight, 1), most)
}

// priorityClass is the class of a priority in HAProxy's queue: the least is served first.
func priorityClass(priority string) int {
	switch priority {
	case "interactive":
		return -1
	case "batch":
		return 1
	}
	return 0
}

// await waits until HAProxy answers on its stats socket.
func (h *haproxy) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		_, _, err := h.held(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-h.Ended():
			return fmt.Errorf("cannot start HAProxy: %w", h.Failure())
		case <-ctx.Done():
			return fmt.Errorf("cannot start HAProxy: it does not answer (%w), output %q", err, h.Output())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// held returns how many requests are with engines and how many wait.
func (h *haproxy) held(ctx context.Context) (held, queued int, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", filepath.Join(h.dir, "haproxy.sock"))
	if err != nil {
		return 0, 0, fmt.Errorf("cannot ask HAProxy: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := io.WriteString(conn, "show stat engines 6 -1\n"); err != nil { // backends and servers
		return 0, 0, fmt.Errorf("cannot ask HAProxy: %w", err)
	}
	table, err := csv.NewReader(conn).ReadAll()
	if err != nil {
		return 0, 0, fmt.Errorf("cannot read HAProxy's figures: %w", err)
	}
	for _, row := range table {
		if len(row) < 5 || row[0] != "engines" {
			continue
		}
		waiting, err1 := strconv.Atoi(row[2]) // qcur
		running, err2 := strconv.Atoi(row[4]) // scur
		if err := errors.Join(err1, err2); err != nil {
			return 0, 0, fmt.Errorf("cannot read HAProxy's figures: %w", err)
		}
		queued += waiting // a backend's are those that wait for any server
		if row[1] != "BACKEND" {
			held += running
		}
	}
	return held, queued, nil
}

// stop ends the process without waiting for its connections, and returns when it has ended.
func (h *haproxy) stop() error { return h.Stop(os.Interrupt, 5*time.Second) }
