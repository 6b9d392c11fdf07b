package cost

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"colonnade/bench/child"
)

// Names of Colonnade's two contestants.
const (
	FleetName = "entry + colo"
	ServeName = "serve"
)

// colo is the name of the only colo.
const colo = "bench"

// endpointSlots is the concurrency of each endpoint. narrow has one slot.
const (
	endpointSlots = 10000
	narrow        = "narrow"
)

func fleetContestant() contestant {
	return contestant{
		Contestant: Contestant{FleetName, "An entry and a colo server as two processes, with everything on: API keys, guard, plan, signed hop token, permit, fair queue, " +
			"event log on disk, and metrics. Its processor time is that of both together."},
		realtime: true, start: startFleet,
	}
}

func serveContestant() contestant {
	return contestant{
		Contestant: Contestant{ServeName, "`colonnade serve`: both in one process, with the same documents in a file, and everything on."},
		realtime:   true, start: startServe,
	}
}

// newKey makes an API key.
func newKey() string { return "cn_bench_" + rand.Text() }

// documents describes the engine's addresses as endpoints, the models, and one account with a key.
func documents(p *place) string {
	b := new(strings.Builder)
	fmt.Fprintf(b, "key: defaults\nmodel: {timeouts: {connect: 30s}}\npool: {permits: {max_share: 1}, queue: {limit: 20000, per_account: 20000, max_wait: 10m}}\n")
	fmt.Fprintf(b, "---\nkey: colos/%s\nregion: weur\n", colo)
	fmt.Fprintf(b, "---\nkey: accounts/bench\nlimits: {concurrent: 100000}\n---\nkey: keys/bench\naccount: bench\nsha256: %q\n",
		fmt.Sprintf("%x", sha256.Sum256([]byte(p.key))))
	fmt.Fprintf(b, "---\nkey: models/m\npool: wide\n---\nkey: models/echo\npool: sessions\ntype: realtime\n---\nkey: models/%s\npool: %[1]s\n", narrow)
	for i, engine := range p.engines {
		fmt.Fprintf(b, "---\nkey: endpoints/%s/wide-%d\nurl: http://%s\npool: wide\nengine: openai\nconcurrency: %d\n", colo, i, engine, endpointSlots)
	}
	return b.String()
}

// furtherDocuments describes two more addresses of an engine: one for sessions, and one with a single slot.
func furtherDocuments(sessions, single string) string {
	return fmt.Sprintf("---\nkey: endpoints/%s/sessions\nurl: http://%s\npool: sessions\nengine: openai\nconcurrency: %d\n"+
		"---\nkey: endpoints/%[1]s/%[4]s\nurl: http://%[5]s\npool: %[4]s\nengine: openai\nconcurrency: 1\n", colo, sessions, endpointSlots, narrow, single)
}

// writeDocuments writes the documents of a contestant.
func writeDocuments(p *place, dir string) (file string, err error) {
	last := len(p.engines)
	q := *p
	q.engines = p.engines[:last-2]
	return writeFile(dir, "documents.yaml", documents(&q)+furtherDocuments(p.engines[last-2], p.engines[last-1]))
}

// nodeArgs are the flags that all nodes have.
func nodeArgs(dir, name string) (args []string, address string, err error) {
	if address, err = freeAddress(); err != nil {
		return nil, "", err
	}
	return []string{"-node", name, "-listen", address, "-admin", "127.0.0.1:0", "-data-dir", filepath.Join(dir, name), "-drain", "100ms"}, address, nil
}

// startServe starts one process.
func startServe(_ context.Context, p *place, dir string) (*running, error) {
	file, err := writeDocuments(p, dir)
	if err != nil {
		return nil, err
	}
	args, address, err := nodeArgs(dir, "serve")
	if err != nil {
		return nil, err
	}
	args = append([]string{"serve", "-config", file, "-max-connections-per-ip", "65536"}, args...)
	process, err := child.Start(ServeName, p.node("colonnade", args...))
	if err != nil {
		return nil, err
	}
	r := &running{address: address}
	r.add(ServeName, process, syscall.SIGKILL)
	return r, nil
}

// startFleet starts an etcd, whose cost is not part of a request's, a colo server and an entry.
func startFleet(ctx context.Context, p *place, dir string) (*running, error) {
	r := &running{}
	etcd, err := r.startEtcd(dir)
	if err != nil {
		return r, err
	}
	if err := p.apply(ctx, dir, etcd); err != nil {
		return r, err
	}
	key, err := writeFile(dir, "fleet.key", base64.StdEncoding.EncodeToString([]byte(rand.Text() + rand.Text())[:32])+"\n")
	if err != nil {
		return r, err
	}
	for _, n := range []struct {
		name string
		args []string
	}{{"colo", []string{"-colo", colo, "-gossip", ""}}, {"entry", []string{"-max-connections-per-ip", "65536"}}} {
		args, address, err := nodeArgs(dir, n.name)
		if err != nil {
			return r, err
		}
		args = append(args, "-etcd", etcd, "-key-file", key, "-max-connections", strconv.Itoa(min(openFiles()*9/10, 64<<10))) // a stream over a link needs one file, not two
		process, err := child.Start("the "+n.name, p.node(n.name, append(args, n.args...)...))
		if err != nil {
			return r, err
		}
		r.add(n.name, process, syscall.SIGKILL)
		r.address = address
	}
	return r, nil
}

func (r *running) startEtcd(dir string) (url string, err error) {
	client, err := freeAddress()
	if err != nil {
		return "", err
	}
	peer, err := freeAddress()
	if err != nil {
		return "", err
	}
	url = "http://" + client
	args := []string{"etcd", "--name", "bench", "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", "http://" + peer, "--initial-advertise-peer-urls", "http://" + peer, "--initial-cluster", "bench=http://" + peer,
		"--unsafe-no-fsync", "--log-level", "error"}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+strings.Join(args, " "))
	process, err := child.Start("etcd", cmd)
	if err == nil {
		r.own(process, os.Kill)
	}
	return url, err
}

// apply writes the documents to etcd by Colonnade's CLI, as soon as etcd takes them.
func (p *place) apply(ctx context.Context, dir, etcd string) error {
	file, err := writeDocuments(p, dir)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(startTimeout); ; {
		cmd := exec.CommandContext(ctx, filepath.Join(p.programs, "colonnade"), "config", "apply", file)
		cmd.Env = append(os.Environ(), "COLONNADE_ETCD="+etcd)
		out, err := cmd.CombinedOutput()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("cannot apply the documents: %w: %s", err, out)
		}
	}
}
