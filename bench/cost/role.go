package cost

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdmain"

	"colonnade/bench/child"
)

// roleVariable is the environment variable that makes a program one of the processes of a run: a role, and its arguments.
const roleVariable = "COLONNADE_BENCH_ROLE"

// firstListener is the file descriptor of the first listener that a child inherits.
const firstListener = 3

// RunRole serves as the process that the environment names, until it is killed. It returns at once if the environment names none.
func RunRole() error {
	fields := strings.Fields(os.Getenv(roleVariable))
	if len(fields) == 0 {
		return nil
	}
	role, args := fields[0], fields[1:]
	if role == "etcd" {
		etcdmain.Main(append(fields[:1:1], args...))
		return nil
	}
	listeners, err := inheritedListeners(args[0])
	if err != nil {
		return err
	}
	switch role {
	case "engine":
		return serveEngine(listeners)
	case "proxy":
		return serveProxy(listeners[0], args[1])
	case "relay":
		return serveRelay(listeners[0], args[1])
	}
	return fmt.Errorf("%s names no role: %q", roleVariable, role)
}

// inheritedListeners returns as many listeners as count says.
func inheritedListeners(count string) (all []net.Listener, err error) {
	n := 0
	if _, err := fmt.Sscan(count, &n); err != nil {
		return nil, err
	}
	for i := range n {
		file := os.NewFile(uintptr(firstListener+i), "listener")
		ln, err := net.FileListener(file)
		if err != nil {
			return nil, fmt.Errorf("cannot take over a listener: %w", err)
		}
		_ = file.Close() // ln has a copy
		all = append(all, ln)
	}
	return all, nil
}

// startRole starts this program in a role that serves on so many new listeners.
func startRole(role string, listeners int, to ...string) (p *child.Process, addresses []string, err error) {
	cmd := exec.Command(os.Args[0])
	for range listeners {
		file, address, err := newListener()
		if err != nil {
			return nil, nil, err
		}
		defer file.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, file)
		addresses = append(addresses, address)
	}
	args := append([]string{role, fmt.Sprint(listeners)}, to...)
	cmd.Env = append(os.Environ(), roleVariable+"="+strings.Join(args, " "))
	p, err = child.Start("the "+role, cmd)
	return p, addresses, err
}

// newListener returns a listener for a child, and its address. No other process can take the port.
func newListener() (*os.File, string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", fmt.Errorf("cannot listen: %w", err)
	}
	defer ln.Close()
	file, err := ln.(*net.TCPListener).File()
	return file, ln.Addr().String(), err
}

// freeAddress returns an address that was free just now, for a program that cannot inherit a listener. Its port is below those that systems
// give to connections and to listeners that name none, so that none of these takes it meanwhile.
func freeAddress() (string, error) {
	var err error
	for range 100 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(16_384+rand.IntN(16_384)))
		var ln net.Listener
		if ln, err = net.Listen("tcp", address); err == nil {
			return address, ln.Close()
		}
	}
	return "", fmt.Errorf("cannot listen: %w", err)
}
