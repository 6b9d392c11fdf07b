package trust_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// oddTargets are targets that some servers take for ChatPath, or for another path that is served somewhere. All spellings are
// tested in openai.
var oddTargets = []string{
	"//v1/chat/completions", "/v1/chat/completions/", "/v1/./chat/completions", "/v1/../v1/chat/completions", "/v1/%2e%2e/v1/chat/completions",
	"/v1%2Fchat%2Fcompletions", "/v1/chat/%63ompletions", "/v1/chat/completions%00?a=b", "/v1/chat/completions;a=b", "/v1\\chat\\completions",
	"/V1/chat/completions", "/chat/completions", "/metrics", "/debug/fleet", "/debug/pools", "/debug/pprof/", "/stats", "/faults",
	"/health/../v1/chat/completions", "/health;", "/healthz", "http://fleet//v1/chat/completions", "http://fleet", "//fleet/v1/chat/completions",
}

// A path is served exactly as it is defined: no other spelling reaches an engine or another route, on either listener.
func TestOddPathsAreRefused(t *testing.T) {
	engine, documents := startTape(t)
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, documents)
	watchNodes(f, 16)
	token := func() string {
		return "x-colonnade-hop: " + signToken(f, f.Colos[0].Node, fleettest.ChatPath, fleettest.StubBody, time.Now())
	}
	length := fmt.Sprintf("Content-Length: %d", len(fleettest.StubBody))
	for _, target := range oddTargets {
		for _, address := range []string{f.Entry.Address, f.Colos[0].Address} {
			for _, method := range []string{"POST", "GET"} {
				w := wiretest.Dial(t, address)
				lines, body := []string{"Host: fleet", "Connection: close", token()}, ""
				if method == "POST" {
					lines, body = append(lines, "Content-Type: application/json", length), fleettest.StubBody
				}
				w.Send(method+" "+target+" HTTP/1.1", lines, body)
				if a := w.Read(); a.Status != 404 && a.Status != 400 || a.APIError(t).Code == "" {
					t.Errorf("%s %s at %s: %d %.200q", method, target, address, a.Status, a.Body)
				}
				w.Close()
			}
		}
	}
	engine.check(t, "odd paths")
}

// A model's name in a path may have slashes, escaped once or not at all. Colos have no such path.
func TestModelInPath(t *testing.T) {
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, "key: models/org/name\npool: demo\n---\nkey: models/v1\npool: demo\n")
	watchNodes(f, 4)
	get := func(address, name string) wiretest.Response {
		w := wiretest.Dial(t, address)
		defer w.Close()
		w.Send("GET /v1/models/"+name+" HTTP/1.1", []string{"Host: fleet", "Connection: close"}, "")
		return w.Read()
	}
	for name, want := range map[string]string{
		"org%2Fname": "org/name", "org/name": "org/name", "org%2Fname?a=b": "org/name", "v1": "v1",
		"org%252Fname": "", "org%2F..%2Forg%2Fname": "", "org/../org/name": "", "org%2Fname%00": "", "ORG/name": "", "..%2fchat%2fcompletions": "", "": "",
	} {
		a := get(f.Entry.Address, name)
		var model struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal([]byte(a.Body), &model)
		if want != "" && (a.Status != 200 || model.ID != want) || want == "" && a.Status != 404 && a.Status != 400 {
			t.Errorf("%s: %d %s, want %q", name, a.Status, a.Body, want)
		}
		if a := get(f.Colos[0].Address, name); a.Status/100 != 4 || strings.Contains(a.Body, `"object"`) {
			t.Errorf("%s at a colo: %d %s", name, a.Status, a.Body)
		}
	}
}
