package light_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
	"colonnade/analytics/sinks/light"
)

func open(t *testing.T, raw string) ship.Sink {
	t.Helper()
	s, err := tryOpen(raw)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func tryOpen(raw string) (ship.Sink, error) {
	spec, err := sinks.Parse(raw)
	if err != nil {
		return nil, err
	}
	e := sinks.Environment{Node: "ams-1"}
	if spec.Credential != "" {
		e.Credential = func() (string, error) { return sinks.ReadCredential(spec.Credential) }
	}
	return light.Open(spec, e)
}

func batch(ids ...string) *ship.Batch {
	var lines [][]byte
	for _, id := range ids {
		lines = append(lines, fmt.Appendf(nil, `{"event_id":%q}`, id))
	}
	return ship.NewBatch("ams-1", "1-1", lines...)
}

func send(t *testing.T, s ship.Sink, b *ship.Batch) {
	t.Helper()
	if err := s.Send(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s has %q, %v; want %q", path, got, err, want)
	}
}

const a, b, c = `{"event_id":"a"}` + "\n", `{"event_id":"b"}` + "\n", `{"event_id":"c"}` + "\n"

func TestFileAppendsAfterATornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "events.jsonl")
	s := open(t, "file:"+path)
	send(t, s, batch("a", "b"))
	wantFile(t, path, a+b)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f := func(before, want string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, "file:"+path)
		send(t, s, batch("c"))
		wantFile(t, path, want)
		_ = s.Close()
	}
	f(a+b[:7], a+c)
	f(b[:7], c)
	f("", c)
	f(a+b[:14]+strings.Repeat("x", 200<<10), a+c)
	f(a+"\x00\x00\x00", a+c)
	f(a+"{", a+c)
	f(a, a+c)
}

// A file of another program stays as it is.
func TestFileOfAnotherProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	for _, before := range []string{"x", "[1, 2]", `{"a":1}`, a + `{"events":1}`, a + "x", strings.Repeat("x", 200<<10)} {
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, "file:"+path)
		if err := s.Send(t.Context(), batch("c")); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "move it away, or name another file") {
			t.Errorf("%.20q: %v", before, err)
		}
		wantFile(t, path, before)
		if err := os.WriteFile(path, []byte(a), 0o600); err != nil { // the file is moved away, and nothing of it is locked
			t.Fatal(err)
		}
		send(t, s, batch("c"))
		wantFile(t, path, a+c)
		_ = s.Close()
	}
}

func TestFileRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e.jsonl")
	s := open(t, "file:"+path+"?max_bytes=1024&keep=2")
	long := strings.Repeat("x", 900)
	for i := range 5 {
		send(t, s, batch(fmt.Sprint(i, long)))
	}
	for i, want := range map[string]string{"": "4", ".1": "3", ".2": "2"} {
		wantFile(t, path+i, fmt.Sprintf("{%q:%q}\n", "event_id", want+long))
	}
	if _, err := os.Stat(path + ".3"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a third full file was kept: %v", err)
	}
	// Another program moves the file away.
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	send(t, s, batch("a"))
	wantFile(t, path, a)
	// Another sink may not write there.
	if err := open(t, "file:"+path).Send(t.Context(), batch("b")); err == nil || !strings.Contains(err.Error(), "another sink") {
		t.Errorf("a second sink: %v", err)
	}
}

const limitVariable = "LIGHT_TEST_FILE_LIMIT"

// TestFileThatCannotGrow runs TestFileUnderALimit in a process of its own, since the limit is for all files of a process, also for the log that
// go test keeps of each test.
func TestFileThatCannotGrow(t *testing.T) {
	child := exec.Command(os.Args[0], "-test.run=^TestFileUnderALimit$", "-test.v")
	child.Env = append(os.Environ(), limitVariable+"="+t.TempDir())
	if out, err := child.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: TestFileUnderALimit")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// A write that ends within a batch, as on a full disk, leaves the file as it was, and once there is room, the same batch arrives as a whole.
func TestFileUnderALimit(t *testing.T) {
	dir := os.Getenv(limitVariable)
	if dir == "" {
		return
	}
	path := filepath.Join(dir, "e.jsonl")
	s := open(t, "file:"+path)
	send(t, s, batch("a"))
	large := batch("b", strings.Repeat("x", 30<<10))
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	t.Cleanup(func() { signal.Reset(syscall.SIGXFSZ) })
	small := old
	small.Cur = 20 << 10
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	err := s.Send(t.Context(), large)
	if restored := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); restored != nil {
		t.Fatal(restored)
	}
	if !errors.Is(err, syscall.EFBIG) {
		t.Fatalf("a batch for which there is no room: %v", err)
	}
	wantFile(t, path, a)
	send(t, s, large)
	wantFile(t, path, a+string(large.NDJSON()))
}

func TestFileRefuses(t *testing.T) {
	if _, err := tryOpen("file:/x?keep=-1"); err == nil || !strings.Contains(err.Error(), "keep=-1") {
		t.Error(err)
	}
	dir := t.TempDir()
	if err := open(t, "file:"+dir).Send(t.Context(), batch("a")); err == nil || !strings.Contains(err.Error(), dir) {
		t.Error(err)
	}
	for _, url := range []string{"file:" + dir, "unix:" + dir + "/none"} {
		if err := open(t, url).Check(t.Context()); err == nil || !strings.Contains(err.Error(), dir) {
			t.Error(url, err)
		}
	}
}

func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s := open(t, "unix:"+path)
	if err := s.Send(t.Context(), batch("a")); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("without a listener: %v", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	lines := make(chan string, 10)
	go func() {
		for range 2 { // the first connection ends after a line
			c, err := listener.Accept()
			if err != nil {
				return
			}
			for scanner := bufio.NewScanner(c); scanner.Scan(); {
				lines <- scanner.Text() + "\n"
				if scanner.Text()+"\n" == b {
					break
				}
			}
			_ = c.Close()
		}
	}()
	send(t, s, batch("a"))
	if got := <-lines; got != a {
		t.Errorf("read %q", got)
	}
	send(t, s, batch("b"))
	<-lines
	for s.Send(t.Context(), batch("c")) != nil { // the connection has ended, or ends now
		time.Sleep(time.Millisecond)
	}
	if got := <-lines; got != c {
		t.Errorf("read %q", got)
	}
}

// A batch has not arrived if the other side ends before it has read it.
func TestSocketClosesUnread(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	s := open(t, "unix:"+path)
	for range 20 {
		sent := make(chan error, 1)
		go func() { sent <- s.Send(t.Context(), batch("a", "b")) }()
		c, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil { // so that it is written
			t.Fatal(err)
		}
		_ = c.Close()
		if <-sent == nil {
			t.Fatal("a batch counts as taken that was not read")
		}
	}
}

// receiver is an HTTP server that answers as a test says, and keeps the last request.
type receiver struct {
	status  atomic.Int32
	headers http.Header // of answers
	last    atomic.Pointer[http.Request]
	body    atomic.Pointer[[]byte]
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	r.body.Store(&body)
	r.last.Store(request)
	for name, values := range r.headers {
		w.Header()[name] = values
	}
	w.WriteHeader(int(r.status.Load()))
	_, _ = io.WriteString(w, "because of that")
}

func serve(t *testing.T) (*receiver, string) {
	t.Helper()
	r := &receiver{headers: http.Header{}}
	r.status.Store(200)
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return r, server.URL
}

func TestHTTPPostsLines(t *testing.T) {
	r, url := serve(t)
	t.Setenv("TOKEN", "t0k")
	t.Setenv("USER_AND_PASSWORD", "u:p")
	unzip := map[string]func([]byte) ([]byte, error){
		"none": func(b []byte) ([]byte, error) { return b, nil },
		"gzip": func(b []byte) ([]byte, error) {
			z, err := gzip.NewReader(bytes.NewReader(b))
			if err != nil {
				return nil, err
			}
			return io.ReadAll(z)
		},
		"zstd": func(b []byte) ([]byte, error) {
			z, err := zstd.NewReader(bytes.NewReader(b))
			if err != nil {
				return nil, err
			}
			defer z.Close()
			return io.ReadAll(z)
		},
	}
	for name, unzip := range unzip {
		s := open(t, url+"/in?query=k%3Dv&credential=env:TOKEN&compression="+name)
		send(t, s, batch("c"))
		send(t, s, batch("a", "b")) // the compressor is used again
		text, err := unzip(*r.body.Load())
		last := r.last.Load()
		if string(text) != a+b || err != nil || last.Header.Get("Authorization") != "Bearer t0k" || last.Header.Get("Content-Type") != "application/x-ndjson" ||
			last.URL.RequestURI() != "/in?k=v" || last.Header.Get("Idempotency-Key") != `"`+batch("a", "b").ID()+`"` {
			t.Errorf("%s: %q, %v, %+v", name, text, err, last)
		}
	}
	send(t, open(t, url+"?auth=basic&credential=env:USER_AND_PASSWORD"), batch("a"))
	if user, password, _ := r.last.Load().BasicAuth(); user != "u" || password != "p" {
		t.Errorf("user %q, password %q", user, password)
	}
	send(t, open(t, url+"?auth=header:X-Key&credential=env:TOKEN"), batch("a"))
	if got := r.last.Load().Header.Get("X-Key"); got != "t0k" {
		t.Errorf("the header has %q", got)
	}
}

func TestHTTPVerdicts(t *testing.T) {
	r, url := serve(t)
	s := open(t, url)
	f := func(status int, retryAfter string, rejected bool, after time.Duration, want string) {
		t.Helper()
		r.status.Store(int32(status))
		r.headers.Del("Retry-After")
		if retryAfter != "" {
			r.headers.Set("Retry-After", retryAfter)
		}
		err := s.Send(t.Context(), batch("a"))
		if want == "" && err == nil {
			return
		}
		var no *ship.RejectedError
		var later *ship.RetryError
		if err == nil || errors.As(err, &no) != rejected || errors.As(err, &later) != (after > 0) || later != nil && later.After != after ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", status, err)
		}
	}
	f(200, "", false, 0, "")
	f(202, "", false, 0, "")
	f(400, "", true, 0, `400: "because of that"`)
	f(413, "", true, 0, "413")
	f(422, "", true, 0, "422")
	f(401, "", false, 0, "credential")
	f(403, "", false, 0, "credential")
	f(404, "", false, 0, "404")
	f(429, "7", false, 7*time.Second, "429")
	f(503, "120", false, 2*time.Minute, "503")
	f(500, "", false, 0, "500")
	f(307, "", false, 0, "redirects")
}

// A credential that is missing is known before there is an event.
func TestCredentialIsChecked(t *testing.T) {
	t.Setenv("COLONNADE_SET", "x")
	for _, url := range []string{"http://127.0.0.1:1/x", "otlp://127.0.0.1:1"} {
		if err := open(t, url+"?credential=env:COLONNADE_NOT_SET").Check(t.Context()); err == nil || !strings.Contains(err.Error(), "COLONNADE_NOT_SET: the environment variable is not set") {
			t.Errorf("%s: %v", url, err)
		}
		if err := open(t, url+"?credential=env:COLONNADE_SET").Check(t.Context()); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		if err := open(t, url+"?auth=basic&credential=env:COLONNADE_SET").Check(t.Context()); err == nil || !strings.Contains(err.Error(), "must be USER:PASSWORD") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestHTTPRefuses(t *testing.T) {
	f := func(raw, want string) {
		t.Helper()
		s, err := tryOpen(raw)
		if err == nil {
			err = s.Send(t.Context(), batch("a"))
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", raw, err, want)
		}
	}
	f("http://127.0.0.1:1/x?auth=digest", "auth=digest")
	f("http://127.0.0.1:1/x?auth=basic", "no credential")
	f("http://127.0.0.1:1/x?credential=env:COLONNADE_NOT_SET", "COLONNADE_NOT_SET: the environment variable is not set")
	f("http://127.0.0.1:1/x?credential=file:/not/there", "/not/there")
	f("http://127.0.0.1:1/x?query=key%3Dhidden", "cannot post to http://127.0.0.1:1: ")
	f("postgres://db/x", "colonnade ship -data-dir DIR")
	if _, err := tryOpen("http://127.0.0.1:1/x?query=key%3Dhidden%25z"); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("got %v", err)
	}
}
