package proctest

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"colonnade/internal/etcdtest"
	"colonnade/internal/faultproxy"
	"colonnade/internal/testkit"
)

// Node is an entry or a colo server. It keeps its address, arguments and data directory over restarts.
type Node struct {
	*testkit.Process

	Name    string
	Address string // where it serves requests
	Admin   string
	Dir     string // data directory
	KeyFile string // with the fleet's keys, its own copy

	fleet *Fleet
	run   []string          // the command line
	etcd  *faultproxy.Proxy // its own way to etcd
	host  *host             // nil: it shares the loopback interface

	draining bool // and not started again since
	paused   bool
}

// startNode starts an entry or a colo server with a data directory of its own.
func (f *Fleet) startNode(binary, name string, args ...string) *Node {
	f.T.Helper()
	n := &Node{Name: name, Dir: filepath.Join(f.dir, name), fleet: f}
	n.run = []string{testkit.Binary(f.T, binary)}
	if f.network == nil {
		n.Address, n.Admin = etcdtest.FreeAddress(f.T), etcdtest.FreeAddress(f.T)
		n.etcd = testkit.NewProxy(f.T, f.Etcd.Address)
	} else {
		n.host = f.network.addHost(f.T)
		n.run = append(n.host.command(), n.run...)
		n.Address, n.Admin = net.JoinHostPort(n.host.ip, "8443"), net.JoinHostPort(n.host.ip, "9443")
		n.etcd = testkit.NewProxyAt(f.T, net.JoinHostPort(f.network.etcdIP, "0"), f.Etcd.Address)
	}
	n.etcd.Delay(f.config.Delay)
	n.KeyFile = filepath.Join(f.dir, name+".key")
	f.CopyKeys(n)
	n.run = append(n.run, "-node", name, "-listen", n.Address, "-admin", n.Admin, "-etcd", "http://"+n.etcd.Address,
		"-data-dir", n.Dir, "-key-file", n.KeyFile, "-drain", f.config.Drain.String())
	n.run = append(n.run, args...)
	if binary == "colo" && f.config.Away > 0 {
		p := testkit.NewProxy(f.T, n.Address)
		p.Delay(f.config.Away / 2)
		n.run = append(n.run, "-advertise-address", p.Address)
	}
	n.Start()
	return n
}

// Start starts the process, also after it has ended.
func (n *Node) Start() {
	n.fleet.T.Helper()
	n.draining, n.paused = false, false
	cmd := exec.Command(n.run[0], n.run[1:]...)
	cmd.Env = append(os.Environ(), n.fleet.config.Environment...)
	n.Process = testkit.Start(n.fleet.T, cmd)
}

// Kill ends the process at once (SIGKILL), and waits for its end.
func (n *Node) Kill() { _ = n.Stop(syscall.SIGKILL) }

// Pause stops the process (SIGSTOP): its connections stay open, new ones are accepted, and it answers nothing.
func (n *Node) Pause() {
	n.paused = true
	n.send(syscall.SIGSTOP)
}

// Resume continues the process after Pause.
func (n *Node) Resume() {
	n.paused = false
	n.send(syscall.SIGCONT)
}

// Paused reports whether the process is stopped.
func (n *Node) Paused() bool { return n.paused }

// Terminate asks the process to drain and to end (SIGTERM), and does not wait.
func (n *Node) Terminate() {
	n.draining = true
	n.send(syscall.SIGTERM)
}

// Leave drains the process, and waits for its end, which must be proper.
func (n *Node) Leave() {
	n.fleet.T.Helper()
	n.Terminate()
	n.awaitLeave()
}

// awaitLeave waits for the end of a process that drains. One that had only just been started may have ended by the signal.
func (n *Node) awaitLeave() {
	n.fleet.T.Helper()
	if err := n.Wait(); err != nil && n.Output() != "" {
		n.fleet.T.Errorf("%s ended with %v", n.Name, err)
	}
}

// Ended reports whether the process has ended.
func (n *Node) Ended() bool { return errors.Is(n.Signal(syscall.Signal(0)), os.ErrProcessDone) }

func (n *Node) send(s syscall.Signal) {
	n.fleet.T.Helper()
	if err := n.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		n.fleet.T.Errorf("cannot send %v to %s: %v", s, n.Name, err)
	}
}

// CutEtcd has everything between the node and etcd lost, without the end of a connection.
func (n *Node) CutEtcd() { n.etcd.Swallow() }

// HealEtcd ends CutEtcd. Connections that lost bytes are closed.
func (n *Node) HealEtcd() { n.etcd.Heal() }

// CutHost has everything that the node sends and receives lost, without the end of a connection. It needs a namespace.
func (n *Node) CutHost() { n.host.setLink(n.fleet.T, "down") }

// HealHost ends CutHost.
func (n *Node) HealHost() { n.host.setLink(n.fleet.T, "up") }

// ShutGossip has everything that others send to the node's port of gossip lost, by UDP and TCP. It needs a namespace.
func (n *Node) ShutGossip() { n.host.shutPort(n.fleet.T, gossipPort) }

// Split has everything between two nodes lost, without the end of a connection. It needs namespaces.
func (n *Node) Split(other *Node) {
	n.host.lose(n.fleet.T, other.host)
	other.host.lose(n.fleet.T, n.host)
}

// Join ends Split.
func (n *Node) Join(other *Node) {
	n.host.find(n.fleet.T, other.host)
	other.host.find(n.fleet.T, n.host)
}

// Get requests a page of the admin listener.
func (n *Node) Get(path string) (status int, body string) {
	return testkit.Get("http://" + n.Admin + path)
}

// Ready reports whether the node reports itself ready.
func (n *Node) Ready() bool {
	status, _ := n.Get("/health/ready")
	return status == http.StatusOK
}

// WaitReady waits until the node is ready.
func (n *Node) WaitReady() {
	n.fleet.T.Helper()
	testkit.WaitFor(n.fleet.T, n.Name+" to be ready", n.Ready)
}

// ActiveServers returns the names of the colo servers in the node's table that do not drain, of all colos, sorted.
func (n *Node) ActiveServers() (names []string) {
	var table struct {
		Documents map[string]struct {
			State string `json:"state"`
		} `json:"documents"`
	}
	_, page := n.Get("/debug/fleet")
	if json.Unmarshal([]byte(page), &table) != nil {
		return nil
	}
	for key := range table.Documents {
		if path.Dir(path.Dir(key)) == "servers" && table.Documents[key].State != "draining" {
			names = append(names, path.Base(key))
		}
	}
	slices.Sort(names)
	return names
}
