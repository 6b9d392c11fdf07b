package onebox_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/valyala/fasthttp"

	"colonnade/internal/etcdtest"
	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
)

// Environment variables that make the test binary a bare proxy: its own address, and that of the server behind it.
const (
	bareProxyListen = "ONEBOX_TEST_BARE_PROXY_LISTEN"
	bareProxyTo     = "ONEBOX_TEST_BARE_PROXY_TO"
)

// runBareProxy forwards until the process is killed.
func runBareProxy(listen, to string) {
	ln, err := net.Listen("tcp", listen)
	if err == nil {
		err = (&fasthttp.Server{Handler: forwardBare(bareClient(to)), NoDefaultServerHeader: true}).Serve(ln)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// gateway is processes between the clients and the engine.
type gateway struct {
	path
	pids []int
}

// startBare starts a bare fasthttp proxy in a process of its own.
func startBare(b *testing.B, engine string) gateway {
	b.Helper()
	address := etcdtest.FreeAddress(b)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), bareProxyListen+"="+address, bareProxyTo+"="+engine)
	return awaitGateway(b, "bare", address, testkit.Start(b, cmd).PID())
}

// startFleetGateway starts an entry and a colo server.
func startFleetGateway(b *testing.B, engine string) gateway {
	f := proctest.Start(b, proctest.Config{Documents: benchDocuments(engine)})
	return awaitGateway(b, "fleet", f.Entries[0].Address, f.Entries[0].PID(), f.Servers[0].PID())
}

// startServeGateway starts one process that is both.
func startServeGateway(b *testing.B, engine string) gateway {
	f := proctest.Start(b, proctest.Config{Serve: true, Documents: benchDocuments(engine)})
	return awaitGateway(b, "serve", f.Entries[0].Address, f.Entries[0].PID())
}

func benchDocuments(engine string) string {
	return fmt.Sprintf("---\nkey: models/m\npool: bench\n---\nkey: endpoints/ams/bench\nurl: http://%s\npool: bench\nengine: openai\nconcurrency: 4096\n", engine)
}

const nginxConfig = `daemon off;
worker_processes 1;
pid %[1]s/pid;
error_log stderr crit;
events { worker_connections 4096; }
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	upstream engine { server %[3]s; keepalive 256; }
	server {
		listen %[2]s;
		location / {
			proxy_pass http://engine;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_buffering off;
		}
	}
}
`

// startNginx starts an nginx that forwards and does nothing else; false if none is installed.
func startNginx(b *testing.B, engine string) (g gateway, installed bool) {
	b.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		return gateway{}, false
	}
	dir, address := b.TempDir(), etcdtest.FreeAddress(b)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, nginxConfig, dir, address, engine), 0o600); err != nil {
		b.Fatal(err)
	}
	p := testkit.Start(b, exec.Command(program, "-p", dir, "-c", file))
	b.Cleanup(func() { _ = p.Stop(syscall.SIGTERM) }) // with its workers
	g = awaitGateway(b, "nginx", address, p.PID())
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.PID()))
	if err != nil {
		b.Fatal(err)
	}
	for _, child := range strings.Fields(string(children)) {
		pid, err := strconv.Atoi(child)
		if err != nil {
			b.Fatal(err)
		}
		g.pids = append(g.pids, pid)
	}
	return g, true
}

// awaitGateway waits until requests are served.
func awaitGateway(b *testing.B, name, address string, pids ...int) gateway {
	b.Helper()
	base := "http://" + address + "/v1"
	testkit.WaitFor(b, name+" to serve", func() bool {
		status, _, _ := testkit.Post(base+"/chat/completions", `{"model":"m","messages":[]}`, "Content-Type", "application/json")
		return status == 200
	})
	return gateway{path{name, base}, pids}
}
