package sdk

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// webPage is the page of the directory browser, on an origin of its own.
type webPage struct {
	url    string
	config struct {
		BaseURL string `json:"baseURL"`
		APIKey  string `json:"apiKey"`
		Listed  bool   `json:"listed"`
	}
	opened chan struct{} // a browser has asked for the page
	report chan map[string]string
}

func servePage(t *testing.T) *webPage {
	t.Helper()
	p := &webPage{opened: make(chan struct{}, 1), report: make(chan map[string]string, 1)}
	mux := http.NewServeMux()
	files := http.FileServer(http.Dir("browser"))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		select {
		case p.opened <- struct{}{}:
		default:
		}
		files.ServeHTTP(w, r)
	})
	mux.Handle("/node_modules/", http.FileServer(http.Dir("js")))
	mux.HandleFunc("/config", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(p.config) })
	mux.HandleFunc("/report", func(_ http.ResponseWriter, r *http.Request) {
		var results map[string]string
		if err := json.NewDecoder(r.Body).Decode(&results); err != nil {
			t.Error(err)
		}
		p.report <- results
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".mjs") {
			w.Header().Set("Content-Type", "text/javascript") // not known everywhere
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// browser returns the path of a Chromium, or skips the test.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium is installed: install the package chromium to have web pages tested")
	return ""
}

// open shows the page in a browser until it has reported its checks.
func (p *webPage) open(t *testing.T, path string) {
	t.Helper()
	shown := p.show(t, path)
	select {
	case results := <-p.report:
		if len(results) < 4 {
			t.Errorf("the page reports only %v", results)
		}
		for check, result := range results {
			if result != "ok" {
				t.Errorf("%s: %s", check, result)
			}
		}
	case <-time.After(patience):
		t.Errorf("the page has reported nothing: %s", shown.Output())
	}
	_ = shown.Stop(syscall.SIGTERM)
}

// show starts a browser with the page. On a busy machine, a headless Chromium sometimes starts and opens nothing; then another one is started.
func (p *webPage) show(t *testing.T, path string) *testkit.Process {
	t.Helper()
	for range 3 {
		shown := testkit.Start(t, exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
			"--disable-background-networking", "--disable-component-update", "--user-data-dir="+t.TempDir(), p.url+"/"))
		select {
		case <-p.opened:
			return shown
		case <-time.After(patience / 4):
			t.Logf("the browser has not opened the page: %s", shown.Output())
			_ = shown.Stop(syscall.SIGKILL)
		}
	}
	t.Fatal("no browser has opened the page")
	return nil
}

// The official SDK and fetch work in a page of a listed origin, which reads headers and refusals too. A page of another origin reaches
// no engine, and reads nothing.
func TestWebPages(t *testing.T) {
	needs(t, js)
	chromium := browser(t)
	listed, other := servePage(t), servePage(t)
	c := onebox.Config{Open: true, Drain: 2 * time.Second, Engine: simengine.Config{Slots: 8, TTFT: 5 * time.Millisecond, ITL: time.Millisecond}}
	f := fleettest.StartClosed(t, c, fmt.Sprintf(documents, startBusyEngine(t), startSlowEngine(t), sha256.Sum256([]byte(apiKey)))+
		"---\nkey: defaults\norigins: ['"+listed.url+"']\n").Fleet
	holdBusy(t, f)
	for _, p := range []*webPage{listed, other} {
		p.config.BaseURL, p.config.APIKey, p.config.Listed = f.URL(), apiKey, p == listed
	}
	listed.open(t, chromium)
	before := requests(f)
	other.open(t, chromium)
	if n := requests(f) - before; n != 0 {
		t.Errorf("the engines got %d requests of a page whose origin is not listed", n)
	}
}
