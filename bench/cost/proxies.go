package cost

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"colonnade/bench/child"
)

// bareChain is a number of bare proxies, or of bare relays, one behind the other.
func bareChain(name, about, role string, hops int) contestant {
	return contestant{Contestant: Contestant{name, about}, bare: true, realtime: role == "relay",
		start: func(_ context.Context, p *place, _ string) (*running, error) {
			r := &running{address: p.engines[0]}
			for i := range hops {
				process, addresses, err := startRole(role, 1, r.address)
				if err != nil {
					return r, err
				}
				r.add(fmt.Sprintf("%s %d", role, hops-i), process, os.Kill)
				r.address = addresses[0]
			}
			return r, nil
		}}
}

const nginxConfig = `daemon off;
worker_processes 1;
worker_rlimit_nofile %[4]d;
pid %[1]s/pid;
error_log stderr crit;
events { worker_connections %[4]d; }
http {
	access_log off;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	keepalive_requests 100000000;
	upstream engine {
%[3]s		keepalive 256;
		keepalive_requests 100000000;
	}
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

// nginx forwards with one worker and does nothing else.
func nginx(ctx context.Context) (contestant, error) {
	program, err := installed("nginx")
	if err != nil {
		return contestant{}, err
	}
	out, err := exec.CommandContext(ctx, program, "-v").CombinedOutput()
	if err != nil {
		return contestant{}, fmt.Errorf("cannot run %s -v: %w", program, err)
	}
	_, version, _ := strings.Cut(strings.TrimSpace(string(out)), "/")
	return contestant{
		Contestant: Contestant{"nginx", "nginx " + version + " with one worker, connections that are kept on both sides, `proxy_buffering off`, and no log."},
		start: func(ctx context.Context, p *place, dir string) (*running, error) {
			address, err := freeAddress()
			if err != nil {
				return nil, err
			}
			servers := ""
			for _, engine := range p.engines {
				servers += "\t\tserver " + engine + ";\n"
			}
			file, err := writeFile(dir, "nginx.conf", fmt.Sprintf(nginxConfig, dir, address, servers, openFiles()))
			if err != nil {
				return nil, err
			}
			process, err := child.Start("nginx", exec.Command(program, "-p", dir, "-c", file))
			if err != nil {
				return nil, err
			}
			r := &running{address: address}
			r.add("nginx", process, syscall.SIGTERM) // with its worker
			if err := p.await(ctx, r); err != nil {
				return r, err
			}
			workers, err := child.Children(process.PID())
			r.nodes[0].pids = append(r.nodes[0].pids, workers...)
			return r, err
		}}, nil
}

const haproxyConfig = `global
	nbthread 1
	maxconn %[2]d
defaults
	mode http
	option http-no-delay
	http-reuse always
	timeout connect 5s
	timeout client 300s
	timeout server 300s
frontend clients
	bind fd@3
	default_backend engine
backend engine
%[1]s`

// haproxy forwards with one thread and does nothing else.
func haproxy(ctx context.Context) (contestant, error) {
	program, err := installed("haproxy")
	if err != nil {
		return contestant{}, err
	}
	out, err := exec.CommandContext(ctx, program, "-v").Output()
	if err != nil {
		return contestant{}, fmt.Errorf("cannot run %s -v: %w", program, err)
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(string(out), "HAProxy version "), " ")
	return contestant{
		Contestant: Contestant{"haproxy", "HAProxy " + version + " with one thread, `http-reuse always`, `http-no-delay`, and no log."},
		start: func(_ context.Context, p *place, dir string) (*running, error) {
			servers := ""
			for i, engine := range p.engines {
				servers += fmt.Sprintf("\tserver engine%d %s\n", i, engine)
			}
			file, err := writeFile(dir, "haproxy.cfg", fmt.Sprintf(haproxyConfig, servers, (openFiles()-100)/2))
			if err != nil {
				return nil, err
			}
			ln, address, err := newListener()
			if err != nil {
				return nil, err
			}
			defer ln.Close()
			cmd := exec.Command(program, "-db", "-f", file) // -db: in the foreground
			cmd.ExtraFiles = []*os.File{ln}
			process, err := child.Start("HAProxy", cmd)
			if err != nil {
				return nil, err
			}
			r := &running{address: address}
			r.add("haproxy", process, os.Interrupt) // ends it without waiting for connections
			return r, nil
		}}, nil
}

// installed returns the path of a program of the system's administrator, which may not be in the PATH.
func installed(name string) (path string, err error) {
	for _, at := range []string{name, "/usr/sbin/" + name} {
		if path, err = exec.LookPath(at); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed, or not in the PATH; Debian has it: apt-get install %[1]s", name)
}

// openFiles is the limit of open files of this process, and of those that it starts.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return int(limit.Max)
}
