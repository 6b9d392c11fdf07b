// Package clickhousetest runs a ClickHouse for tests: the engine that chdb embeds in Python, behind the part of ClickHouse's HTTP interface
// that its Go client uses. The engine, its tables, types, errors and files are ClickHouse's own; users, TLS, compression and the protocol are
// this package's.
package clickhousetest

import (
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"colonnade/internal/testkit"
)

// User and Password are those that the server takes.
const (
	User     = "writer"
	Password = "secret-of-the-test"
)

// Server is a ClickHouse on loopback that keeps its data until the end of the test, also when it is killed.
type Server struct {
	t       testing.TB
	python  string
	dir     string
	address string
	engine  *engine // nil = killed
	http    *http.Server
}

// Start starts a ClickHouse, which ends with the test. The test is skipped where chdb is not installed.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, python: findPython(t), dir: t.TempDir(), address: "127.0.0.1:0"}
	t.Cleanup(s.Kill)
	s.Run()
	return s
}

// findPython returns a Python that has chdb: .ci/run installs one in var/clickhouse.
func findPython(t testing.TB) string {
	t.Helper()
	pythons := []string{"python3"}
	for up := "."; len(up) < len("../../../../.."); up = filepath.Join(up, "..") {
		if python, err := filepath.Abs(filepath.Join(up, "var", "clickhouse", "bin", "python")); err == nil {
			pythons = append(pythons, python)
		}
	}
	for _, python := range slices.Backward(pythons) {
		if exec.Command(python, "-c", "import chdb").Run() == nil {
			return python
		}
	}
	t.Skip("needs chdb: python3 -m venv var/clickhouse && var/clickhouse/bin/pip install --no-deps chdb-core")
	return ""
}

// Address returns host and port.
func (s *Server) Address() string { return s.address }

// Run starts the ClickHouse again after Kill, at the same address and with its data.
func (s *Server) Run() {
	s.t.Helper()
	var err error
	if s.engine, err = startEngine(s.python, s.dir); err != nil {
		s.t.Fatal(err)
	}
	s.Exec("create database if not exists colonnade")
	var listener net.Listener
	testkit.WaitFor(s.t, "the address of the ClickHouse before", func() bool {
		listener, err = net.Listen("tcp", s.address)
		return err == nil
	})
	s.address = listener.Addr().String()
	s.http = &http.Server{Handler: &handler{s.engine}, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.http.Serve(listener) }()
}

// Kill ends the ClickHouse at once, as after a crash.
func (s *Server) Kill() {
	if s.engine == nil {
		return
	}
	s.engine.kill()
	_ = s.http.Close()
	s.engine = nil
}

// Exec executes statements.
func (s *Server) Exec(statements ...string) {
	s.t.Helper()
	for _, statement := range statements {
		if _, err := s.engine.run([]string{statement}, nil); err != nil {
			s.t.Fatalf("%s: %v", statement, err)
		}
	}
}

// Texts returns the only column of a query, which must be of the type String.
func (s *Server) Texts(query string) []string {
	s.t.Helper()
	answer, err := s.engine.run([]string{query}, nil)
	if err != nil {
		s.t.Fatalf("%s: %v", query, err)
	}
	texts, err := texts(answer)
	if err != nil {
		s.t.Fatalf("%s: %v", query, err)
	}
	return texts
}
