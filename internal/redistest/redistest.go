// Package redistest runs a Redis for tests.
package redistest

import (
	"fmt"
	"net"
	"os/exec"
	"testing"
	"time"

	"colonnade/internal/testkit"
)

// Server is a Redis on loopback, without persistence.
type Server struct {
	t       testing.TB
	port    string
	process *exec.Cmd
}

// Start starts a Redis, which is killed at the end of the test. Without redis-server in the PATH, the test is skipped.
func Start(t testing.TB) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("needs redis-server in the PATH (Debian: apt-get install redis-server)")
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	_ = free.Close()
	s := &Server{t: t, port: port}
	t.Cleanup(s.Kill)
	s.Run()
	return s
}

// URL returns the URL of the Redis.
func (s *Server) URL() string { return "redis://127.0.0.1:" + s.port }

// Run starts the Redis again after Kill, at the same address and without what it held before.
func (s *Server) Run() {
	s.t.Helper()
	s.process = exec.Command("redis-server", "--port", s.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.t.TempDir())
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	testkit.WaitFor(s.t, "Redis to answer", s.answers)
}

func (s *Server) answers() bool {
	c, err := net.DialTimeout("tcp", "127.0.0.1:"+s.port, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	answer := make([]byte, 5)
	if _, err := fmt.Fprint(c, "PING\r\n"); err != nil {
		return false
	}
	n, _ := c.Read(answer)
	return n > 0 && answer[0] == '+'
}

// Kill ends the Redis at once.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
	s.process = nil
}
