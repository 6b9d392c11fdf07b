package engines

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// names is the name server of this process.
var names *nameServer

func TestMain(m *testing.M) {
	n, err := newNameServer()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	names, net.DefaultResolver = n, n.resolver()
	go names.serve()
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("colonnade/discovery/engines.(*nameServer).serve"))
}

// serveFile serves the pages of a file in testdata: each under "METHOD PATH", with its status before that unless it is 200.
// The key of a POST ends with the model in its body.
func serveFile(t *testing.T, name string) (url string) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &pages); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		want := r.Method + " " + r.RequestURI
		if r.Method == http.MethodPost {
			var body struct{ Model string }
			_ = json.NewDecoder(r.Body).Decode(&body)
			want += " " + body.Model
		}
		for key, body := range pages {
			status := http.StatusOK
			if code, rest, ok := strings.Cut(key, " "); ok && code[0] >= '0' && code[0] <= '9' {
				key = rest
				status, _ = strconv.Atoi(code)
			}
			if key == want {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				_, _ = w.Write(body)
				return
			}
		}
		http.NotFound(w, r)
	})
}

func serve(t *testing.T, h http.HandlerFunc) (url string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func servePage(t *testing.T, path, body string) (url string) {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, body)
	})
}

// ask returns what the engine at a URL is.
func ask(t *testing.T, url string) *Engine {
	t.Helper()
	e, err := Ask(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// summary returns all that is known of an engine but its URL.
func summary(e *Engine) string {
	var models []string
	for _, m := range e.Models {
		s := fmt.Sprintf("%s %s", m.Name, m.Type)
		if m.Upstream != m.Name {
			s += fmt.Sprintf(" upstream=%q", m.Upstream)
		}
		if m.MaxModelLen > 0 {
			s += fmt.Sprintf(" len=%d", m.MaxModelLen)
		}
		if m.Base != "" {
			s += " base=" + m.Base
		}
		if m.Note != "" {
			s += " noted"
		}
		models = append(models, s)
	}
	return fmt.Sprintf("%s %q slots=%d notes=%d [%s]", e.Kind, e.Version, e.Slots, len(e.Notes), strings.Join(models, "; "))
}
