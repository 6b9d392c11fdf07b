// Package pgtest runs a PostgreSQL for tests.
package pgtest

import (
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"colonnade/internal/testkit"
)

// Password is that of the user postgres.
const Password = "secret-of-the-test"

// Server is a PostgreSQL on loopback that keeps its data until the end of the test, also when it is killed.
type Server struct {
	t       testing.TB
	bin     string // directory of its programs
	dir     string
	port    string
	process *exec.Cmd
}

// Start makes a database cluster and starts a PostgreSQL over it, which ends with the test. The test is skipped where PostgreSQL is not
// installed, or cannot run: it refuses to run as root, and needs the user postgres then.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, bin: programs(t)}
	dir, err := os.MkdirTemp("", "pgtest") // not t.TempDir, which only the user of the test may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s.dir = filepath.Join(dir, "data")
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte(Password), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, password} {
		s.give(path)
	}
	if out, err := s.command("initdb", "-D", s.dir, "-U", "postgres", "--auth=scram-sha-256", "--pwfile="+password, "-E", "UTF8", "--locale=C", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	s.port = freePort(t)
	t.Cleanup(s.Kill)
	s.Run()
	return s
}

// programs returns the directory of the newest PostgreSQL.
func programs(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil { // the other programs are beside it
			return filepath.Dir(path)
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // where Debian has them
	if len(found) == 0 {
		t.Skip("needs initdb and postgres in the PATH or in /usr/lib/postgresql (Debian: apt-get install postgresql)")
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return len(a) - len(b) + strings.Compare(a, b) }))
}

func freePort(t testing.TB) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer free.Close()
	_, port, _ := net.SplitHostPort(free.Addr().String())
	return port
}

// Address returns host and port.
func (s *Server) Address() string { return "127.0.0.1:" + s.port }

// URL returns the URL of the database postgres, with its user and password.
func (s *Server) URL() string {
	return "postgres://postgres:" + Password + "@" + s.Address() + "/postgres"
}

// Run starts the PostgreSQL again after Kill, at the same address and with its data.
func (s *Server) Run() {
	s.t.Helper()
	s.process = s.command("postgres", "-D", s.dir, "-p", s.port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "fsync=off", "-c", "max_connections=20", "-c", "shared_buffers=16MB")
	log, err := os.OpenFile(s.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	s.process.Stdout, s.process.Stderr = log, log
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		out, err := exec.Command(filepath.Join(s.bin, "pg_isready"), "-h", "127.0.0.1", "-p", s.port).CombinedOutput()
		if err == nil {
			return
		}
		if time.Since(began) > testkit.Timeout {
			text, _ := os.ReadFile(s.dir + ".log")
			s.t.Fatalf("PostgreSQL does not answer: %v\n%s\n%s", err, out, text)
		}
	}
}

// Kill ends the PostgreSQL at once, as after a crash: nothing is written any more, and all connections break.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Signal(syscall.SIGQUIT) // SIGKILL would leave its children to themselves
	end := time.AfterFunc(testkit.Timeout, func() { _ = s.process.Process.Kill() })
	_ = s.process.Wait()
	end.Stop()
	s.process = nil
}

// Stop suspends the PostgreSQL: connections stay, and nothing is answered, until Continue.
func (s *Server) Stop() { s.signalAll(syscall.SIGSTOP) }

// Continue ends what Stop has begun.
func (s *Server) Continue() { s.signalAll(syscall.SIGCONT) }

// signalAll signals the PostgreSQL and its children, which are in one process group each.
func (s *Server) signalAll(signal syscall.Signal) {
	s.t.Helper()
	out, err := exec.Command("ps", "-o", "pid=", "--ppid", strconv.Itoa(s.process.Process.Pid)).Output()
	if err != nil {
		s.t.Skipf("cannot list the processes of PostgreSQL: %v", err)
	}
	_ = s.process.Process.Signal(signal)
	for _, field := range strings.Fields(string(out)) {
		if pid, err := strconv.Atoi(field); err == nil {
			_ = syscall.Kill(pid, signal)
		}
	}
}

// owner returns the user that PostgreSQL runs as, or nil for that of the test.
func (s *Server) owner() *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		s.t.Skipf("PostgreSQL does not run as root, and there is no user postgres: %v", err)
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// give makes a file one of the user that PostgreSQL runs as.
func (s *Server) give(path string) {
	if o := s.owner(); o != nil {
		if err := os.Chown(path, int(o.Uid), int(o.Gid)); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, program), args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner()}
	return cmd
}
