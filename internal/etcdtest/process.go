package etcdtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Process is a member of an etcd cluster in a process of its own.
type Process struct {
	Address string // host:port where clients connect

	program, name, peer, cluster string
	dir                          string // of data
	log                          *os.File
	cmd                          *exec.Cmd
	ended                        chan struct{} // closed when cmd has ended
}

// StartProcess starts a cluster of one that ends with the test. program is the path of testkit.EtcdProgram.
func StartProcess(t testing.TB, program string) *Process {
	t.Helper()
	return StartCluster(t, program, 1)[0]
}

// StartCluster starts a cluster that ends with the test.
func StartCluster(t testing.TB, program string, members int) []*Process {
	t.Helper()
	var all []*Process
	var cluster []string
	for i := range members {
		log, err := os.Create(filepath.Join(t.TempDir(), "log"))
		if err != nil {
			t.Fatal(err)
		}
		p := &Process{
			Address: FreeAddress(t), peer: FreeAddress(t), name: fmt.Sprintf("m%d", i), program: program, dir: t.TempDir(), log: log,
		}
		all = append(all, p)
		cluster = append(cluster, p.name+"=http://"+p.peer)
	}
	for _, p := range all {
		p.cluster = strings.Join(cluster, ",")
		p.start(t)
		t.Cleanup(func() { p.end(t) })
	}
	for _, p := range all {
		p.awaitReady(t)
	}
	return all
}

func (p *Process) start(t testing.TB) {
	t.Helper()
	client, peer := "http://"+p.Address, "http://"+p.peer
	p.cmd = exec.Command(p.program, "--name", p.name, "--data-dir", p.dir,
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", p.cluster,
		"--heartbeat-interval", "50", "--election-timeout", "500", "--unsafe-no-fsync", "--log-level", "warn")
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	// A stopped process in a group of its own is continued and ended by the kernel if the test dies.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if _, err := p.cmd.StdinPipe(); err != nil { // open until Wait has seen the end
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd, ended := p.cmd, make(chan struct{})
	p.ended = ended
	go func() {
		defer close(ended)
		_ = cmd.Wait() // reports the signal that ended it
	}()
}

// awaitReady waits until the member answers.
func (p *Process) awaitReady(t testing.TB) {
	t.Helper()
	client := p.Client(t)
	defer client.Close()
	for end := time.Now().Add(startTimeout); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := client.Get(ctx, "ready")
		cancel()
		if err == nil {
			return
		}
	}
	t.Fatalf("etcd is not ready; its output is:\n%s", p.output())
}

func (p *Process) end(t testing.TB) {
	p.Kill(t)
	if t.Failed() {
		t.Logf("output of etcd %s:\n%s", p.name, p.output())
	}
	_ = p.log.Close()
}

func (p *Process) output() string {
	text, _ := os.ReadFile(p.log.Name())
	return string(text)
}

// Kill ends the process at once, as kill -9 does.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGKILL)
	select {
	case <-p.ended:
	case <-time.After(startTimeout):
		t.Error("a killed etcd does not end")
	}
}

// Pause stops the process (SIGSTOP): its connections stay open, and it answers nothing.
func (p *Process) Pause(t testing.TB) { p.signal(t, syscall.SIGSTOP) }

// Resume continues the process after Pause.
func (p *Process) Resume(t testing.TB) { p.signal(t, syscall.SIGCONT) }

func (p *Process) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	select {
	case <-p.ended: // its number may be another process's by now
		return
	default:
	}
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Errorf("cannot send %v to etcd: %v", s, err)
	}
}

// Restart starts the process again after Kill, with its data.
func (p *Process) Restart(t testing.TB) {
	t.Helper()
	p.start(t)
	p.awaitReady(t)
}

// Copy copies the data, like a backup, and returns the directory of the copy. The process must not run.
func (p *Process) Copy(t testing.TB) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(p.dir)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Restore starts the process again after Kill, with the data of a copy.
func (p *Process) Restore(t testing.TB, dir string) {
	t.Helper()
	if err := os.RemoveAll(p.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(p.dir, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	p.Restart(t)
}

// Leads reports whether the member is the leader of its cluster.
func (p *Process) Leads(t testing.TB) bool {
	t.Helper()
	client := p.Client(t)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	status, err := client.Status(ctx, "http://"+p.Address)
	if err != nil {
		t.Fatal(err)
	}
	return status.Leader == status.Header.MemberId
}

// Client returns a client with the library's settings, which is closed with the test.
func (p *Process) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	return newClient(t, p.Address)
}

func newClient(t testing.TB, address string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{"http://" + address},
		DialTimeout: startTimeout,
		Logger:      zap.NewNop(),
	})
	if err != nil {
		t.Fatalf("cannot make an etcd client: %v", err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}
