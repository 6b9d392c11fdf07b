package pages

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"colonnade/internal/acmetest"
	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
	_ "colonnade/onebox" // and so all packages that the commands are made of: after a change of one, no cached result is used
)

// patience bounds every wait; the first build of the binaries takes most of it.
const patience = 5 * time.Minute

// etcdAddress is the address of etcd by default.
const etcdAddress = "127.0.0.1:2379"

// sandbox is a directory that looks like the root of the repository, in which the commands of a page run: what they write is
// removed with it, and they use addresses of their own instead of those of the page.
type sandbox struct {
	t     *testing.T
	dir   string
	moved map[string]string   // address on the page → address in use
	acme  *acmetest.Authority // for all names of HTTPS on the page; nil before move finds one

	environment []string // of the commands, beside that of the test
}

func newSandbox(t *testing.T) *sandbox {
	t.Helper()
	s := &sandbox{t: t, dir: t.TempDir(), moved: map[string]string{}}
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(repository, "bin"), filepath.Join(s.dir, "bin")); err != nil {
		t.Fatal(err)
	}
	s.write("Makefile", "%:\n\t@$(MAKE) --no-print-directory -C "+repository+" $@\n")
	samples, err := filepath.Glob(filepath.Join(root, "deploy/*.yaml"))
	if err != nil || len(samples) == 0 {
		t.Fatalf("no sample documents: %v", err)
	}
	for _, sample := range samples {
		s.write("deploy/"+filepath.Base(sample), s.move(read(t, "deploy/"+filepath.Base(sample))))
	}
	return s
}

func (s *sandbox) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

var loopback = regexp.MustCompile(`\b(127\.0\.0\.1|localhost):\d+`)

// httpsPort is the address of a listener for names, as pages have it.
const httpsPort = ":443"

// move replaces addresses on loopback by free ones, and has certificates requested from an authority that knows no network.
func (s *sandbox) move(text string) string {
	text = loopback.ReplaceAllStringFunc(text, func(address string) string {
		host, port, _ := strings.Cut(address, ":")
		page := "127.0.0.1:" + port
		if s.moved[page] == "" {
			s.moved[page] = etcdtest.FreeAddress(s.t)
		}
		return strings.Replace(s.moved[page], "127.0.0.1", host, 1)
	})
	if !strings.Contains(text, "-tls-domain ") {
		return text
	}
	s.startACME()
	return strings.NewReplacer("-tls-domain ", "-tls-acme "+s.acme.Directory()+" -tls-domain ",
		"-listen "+httpsPort+" ", "-listen "+s.moved[httpsPort]+" ").Replace(text)
}

// startACME starts a certificate authority, which Go programs and curl trust by the files that it writes. For curl, port 443 of
// any name is that of the sandbox.
func (s *sandbox) startACME() {
	s.t.Helper()
	if s.acme != nil {
		return
	}
	address := etcdtest.FreeAddress(s.t)
	s.moved[httpsPort] = address
	var directory []byte
	s.acme, directory = acmetest.Start(s.t, func(string, int) (net.Conn, error) { return net.Dial("tcp", address) })
	s.write("authorities.pem", string(directory)+string(s.acme.CA.PEM))
	s.environment = append(s.environment, "SSL_CERT_FILE="+filepath.Join(s.dir, "authorities.pem"), "CURL_HOME="+s.dir)
	s.write(".curlrc", "connect-to = \":443:"+address+"\"\ncacert = \"authorities.pem\"\n")
}

// bash runs a script in the sandbox, ends what it has started in the background, and returns its output.
func (s *sandbox) bash(script string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	script = s.move(script)
	cmd := exec.CommandContext(ctx, "bash", "-c", "trap 'status=$?; kill $(jobs -p) 2>/dev/null || true; wait; exit $status' EXIT\nset -e\n"+script)
	etcd := s.moved[etcdAddress]
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "COLONNADE_ETCD=http://"+etcd, "ETCDCTL_ENDPOINTS="+etcd, "ETCDCTL_API=3", testkit.FreeGossip)
	cmd.Env = append(cmd.Env, s.environment...)
	cmd.WaitDelay = 10 * time.Second
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Errorf("%v\n%s", err, script)
	}
	s.t.Logf("the commands took %v and printed:\n%s", time.Since(began).Round(time.Millisecond), out)
	return string(out)
}

// up runs `make up` until the test's end.
func (s *sandbox) up(flags string) {
	s.t.Helper()
	flags = s.move("-listen 127.0.0.1:8080 -admin 127.0.0.1:9080 -etcd-listen "+etcdAddress) + " -dir " + s.dir + "/fleet " + flags
	cmd := exec.Command("make", "up", "UP_FLAGS="+flags)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "MAKEFLAGS=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var printed testkit.SyncBuffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	s.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
		select {
		case <-ended: // the status is that of make, which was interrupted
		case <-time.After(time.Minute):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-ended
			s.t.Error("make up did not end after Ctrl-C")
		}
		if !strings.Contains(printed.String(), "OpenAI(base_url=") {
			s.t.Errorf("make up did not print what to try:\n%s", printed.String())
		}
	})
	url := "http://" + s.move("127.0.0.1:8080") + "/health/ready"
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if answer, err := http.Get(url); err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("make up is not ready:\n%s", printed.String())
		}
	}
}

// runProgram runs a block in JavaScript or Python, where the SDKs are installed. Any other block is left alone.
func (s *sandbox) runProgram(b block) {
	switch b.language {
	case "js":
		s.t.Run("JavaScript", func(t *testing.T) { s.runFile(t, b, "js", ".mjs", "js/node_modules", "node") })
	case "python":
		s.t.Run("Python", func(t *testing.T) { s.runFile(t, b, "python", ".py", "python/.venv", "python/.venv/bin/python") })
	}
}

// runFile runs a block as a file below test/sdk, where modules are found.
func (s *sandbox) runFile(t *testing.T, b block, directory, suffix, modules, interpreter string) {
	sdk, err := filepath.Abs(filepath.Join(root, "test/sdk"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(sdk, modules)); err != nil {
		t.Skip("the SDKs are not installed: run test/sdk/install.sh")
	}
	file, err := os.CreateTemp(filepath.Join(sdk, directory), "page-*"+suffix)
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(file.Name())
	if _, err := file.WriteString(s.move(b.text)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(interpreter, "/") {
		interpreter = filepath.Join(sdk, interpreter)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, interpreter, file.Name()).CombinedOutput()
	if err != nil || len(strings.Fields(string(out))) < 20 {
		t.Errorf("%v, want some words:\n%s", err, out)
	}
}
