package deploy

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait; nothing is measured by it.
const patience = 30 * time.Second

// process is a binary that runs until the test's end, or until it is stopped.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	log   string // file
	ended chan struct{}
	err   error // how it ended; to be read after ended
}

// start starts one of our binaries with nothing in its environment but what is given.
func start(t *testing.T, environment []string, args ...string) *process {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), args[0])
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(filepath.Join(bin, args[0]), args[1:]...), log: file.Name(), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = file, file, environment
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		file.Close()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%q said:\n%s", args, text(t, p.log))
		}
	})
	return p
}

// wait waits for the process's end, which must be a good one.
func (p *process) wait() {
	p.t.Helper()
	select {
	case <-p.ended:
		if p.err != nil {
			p.t.Errorf("%q ended with %v", p.cmd.Args, p.err)
		}
	case <-time.After(patience):
		p.t.Fatalf("%q does not end", p.cmd.Args)
	}
}

func (p *process) drain() {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	p.wait()
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting for %s", what)
		}
	}
}

func keyFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fleet.key")
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	if err := os.WriteFile(name, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// answer is what a client gets.
type answer struct {
	status int
	colo   string
	body   string
}

func post(address, path, body string) answer {
	client := http.Client{Timeout: patience}
	r, err := client.Post("http://"+address+path, "application/json", strings.NewReader(body))
	if err != nil {
		return answer{body: err.Error()}
	}
	defer r.Body.Close()
	said, _ := io.ReadAll(r.Body)
	return answer{r.StatusCode, r.Header.Get("X-Colonnade-Colo"), string(said)}
}
