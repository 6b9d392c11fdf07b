package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"colonnade/internal/simengine"
	"colonnade/internal/tlstest"
)

// The fleet of up serves requests without a key as the account open, if it is open, and those with its key as the account demo.
func TestUpAccounts(t *testing.T) {
	f := func(open bool, withoutKey int) {
		t.Helper()
		dir := t.TempDir()
		var out, notes record
		end := background(t, &out, &notes, "up", "-listen", "127.0.0.1:0", "-admin", "127.0.0.1:0", "-etcd-listen", "127.0.0.1:0",
			"-dir", dir, fmt.Sprintf("-open=%v", open))
		out.await(t, "Ctrl-C stops the fleet.")
		defer func() {
			if err := end(); err != nil {
				t.Errorf("up ended with %v\n%s", err, notes.String())
			}
		}()
		url := regexp.MustCompile(`http://\S+/v1\b`).FindString(out.String())
		key := regexp.MustCompile(`authorization: Bearer (cn_\w+)`).FindStringSubmatch(out.String())[1]
		if got := chatStatus(t, url, ""); got != withoutKey {
			t.Errorf("open %v, without a key: %d", open, got)
		}
		if got := chatStatus(t, url, "cn_x_unknown"); got != withoutKey {
			t.Errorf("open %v, with an unknown key: %d", open, got)
		}
		if got := chatStatus(t, url, key); got != http.StatusOK {
			t.Errorf("open %v, with the key: %d", open, got)
		}
		want := map[string]int{"demo": 1, "open": 0}
		if open {
			want["open"] = 2
		}
		for account, n := range want {
			events := run(t, "", "events", "tail", "-data-dir", dir+"/nodes", "-kind", "request", "-account", account).want(t)
			if got := strings.Count(events, "\n"); got != n {
				t.Errorf("open %v: account %s has %d requests, want %d:\n%s", open, account, got, n, events)
			}
		}
		created := regexp.MustCompile(`keys create -etcd (\S+) -account acme`).FindStringSubmatch(out.String())
		run(t, "", "keys", "list", "-etcd", created[1]).want(t, "demo")
		run(t, "", "config", "history", "-etcd", created[1]).want(t, userName()+"@", "colonnade up -listen 127.0.0.1:0")
		watch := regexp.MustCompile(`colonnade (status -etcd \S+) -watch`).FindStringSubmatch(out.String())
		status := run(t, "", strings.Fields(watch[1])...).want(t, "demo in ams  server ams-1; fair by tokens", "demo in fra", "sim-2")
		granted := 0
		for _, n := range regexp.MustCompile(`granted +(\d+)`).FindAllStringSubmatch(status, -1) {
			granted += int(n[1][0] - '0')
		}
		if granted != want["demo"]+want["open"] {
			t.Errorf("%d were granted in\n%s", granted, status)
		}
	}
	f(true, http.StatusOK)
	f(false, http.StatusUnauthorized)
}

func TestParseColos(t *testing.T) {
	f := func(flag, want string) {
		t.Helper()
		names, servers, err := parseColos(flag)
		if got := fmt.Sprint(names, servers); err != nil || got != want {
			t.Errorf("parseColos(%q) = %s, %v, want %s", flag, got, err, want)
		}
	}
	f("ams:1,fra:1", "[ams fra] map[ams:1 fra:1]")
	f("fra, ams", "[fra ams] map[ams:1 fra:1]")
	f("ams:3,fra", "[ams fra] map[ams:3 fra:1]")
	f("ams:32", "[ams] map[ams:32]")
	refused := func(flag, want string) {
		t.Helper()
		run(t, "", "up", "-colos", flag).fail(t, fmt.Sprintf("-colos %q: ", flag)+want)
	}
	const allowed = ": the number must be from 1 to 32"
	refused("ams:0", `colo ams cannot have "0" servers`+allowed)
	refused("fra,ams:33", `colo ams cannot have "33" servers`+allowed)
	refused("ams:x,fra", `colo ams cannot have "x" servers`+allowed)
	refused("ams:", `colo ams cannot have "" servers`+allowed)
	refused("ams:-1", `colo ams cannot have "-1" servers`+allowed)
	refused("ams:1:2", `colo ams cannot have "1:2" servers`+allowed)
	refused("ams:99999999999999999999", `colo ams cannot have "99999999999999999999" servers`+allowed)
	refused("ams:2,fra,ams:2", "colo ams is named twice; name it once, with the number of its servers (1 to 32)")
	refused(":3", "a colo has no name; write for example ams:3,fra:1")
	refused("ams,", "a colo has no name")
}

// Several servers of a colo are one colo for clients, and one row of the status for each pool.
func TestUpWithSeveralServers(t *testing.T) {
	var out, notes record
	end := background(t, &out, &notes, "up", "-listen", "127.0.0.1:0", "-admin", "127.0.0.1:0", "-etcd-listen", "127.0.0.1:0",
		"-colos", "ams:3,fra:1", "-engines", "1")
	out.await(t, "Ctrl-C stops the fleet.")
	for _, name := range []string{"ams-1", "ams-2", "ams-3", "fra-1"} {
		if !regexp.MustCompile(`(?m)^colo +` + name + ` +http://`).MatchString(out.String()) {
			t.Errorf("%s is not listed:\n%s", name, out.String())
		}
	}
	url := regexp.MustCompile(`http://\S+/v1\b`).FindString(out.String())
	if got := chatStatus(t, url, ""); got != http.StatusOK {
		t.Errorf("a chat: %d", got)
	}
	etcd := regexp.MustCompile(`status -etcd (\S+) -watch`).FindStringSubmatch(out.String())[1]
	status := run(t, "", "status", "-etcd", etcd).want(t, "demo in ams  home ams-", ", one of 3 servers; fair by tokens", "demo in fra  server fra-1",
		"COLO  SERVER  HOME OF", "ams   ams-1", "ams   ams-2", "ams   ams-3", "fra   fra-1")
	if n := strings.Count(status, "demo in ams"); n != 1 {
		t.Errorf("the pool is shown %d times:\n%s", n, status)
	}
	run(t, "", "config", "status", "-etcd", etcd).want(t, "4 records of server processes, 0 of them not registered", "no problems")
	home := regexp.MustCompile(`home (ams-\d)`).FindStringSubmatch(status)[1]
	records := run(t, "", "config", "get", "-etcd", etcd, "owners/ams/").want(t, "# key: owners/ams/"+home+"/")
	key := regexp.MustCompile(`owners/ams/` + home + `/\w+`).FindString(records)
	run(t, "", "config", "delete", "-etcd", etcd, "-force", key).fail(t, "its process is registered", "nothing was deleted")
	if err := end(); err != nil {
		t.Errorf("up ended with %v\n%s", err, notes.String())
	}
}

// With a certificate, the fleet of up speaks HTTPS.
func TestUpTLS(t *testing.T) {
	ca, files := tlstest.NewCA(t, "web"), tlstest.NewFiles(t)
	files.Put(ca, "", nil)
	var out, notes record
	end := background(t, &out, &notes, "up", "-listen", "127.0.0.1:0", "-admin", "127.0.0.1:0", "-etcd-listen", "127.0.0.1:0",
		"-colos", "ams", "-engines", "1", "-tls-cert", files.Cert, "-tls-key", files.Key)
	out.await(t, "Ctrl-C stops the fleet.")
	urls := regexp.MustCompile(`(https?)://\S+/v1\b`).FindAllStringSubmatch(out.String(), -1)
	for _, url := range urls {
		if url[1] != "https" {
			t.Errorf("a URL begins with %s", url[0])
		}
	}
	if !strings.Contains(out.String(), "--cacert "+files.Cert) {
		t.Errorf("the curl commands lack the certificate:\n%s", out.String())
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}}} //nolint:gosec // a test
	answer, err := client.Get(urls[0][0] + "/models")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	client.CloseIdleConnections()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("GET /v1/models: %d", answer.StatusCode)
	}
	if err := end(); err != nil {
		t.Errorf("up ended with %v\n%s", err, notes.String())
	}
}

func TestUpRefusesLatencies(t *testing.T) {
	f := func(colos, latency, want string) {
		t.Helper()
		run(t, "", "up", "-colos", colos, "-latency", latency).fail(t, "-latency "+want)
	}
	f("ams,fra", "ams-waw=8ms", `"ams-waw" is no pair of the places ams, fra, entry`)
	f("ams,fra", "ams-entry=1ms,ams=8ms", `"ams=8ms" is no round trip between two places: write for example ams-entry=8ms`)
	f("ams,fra", "ams-fra=-1ms", `"ams-fra=-1ms": ams-fra cannot be -1ms apart: a round trip is from 0s to 1m0s`)
}

// With -latency, colos are as far from each other and from the entry as it says, and the flag can be repeated.
func TestUpWithLatency(t *testing.T) {
	var out, notes record
	end := background(t, &out, &notes, "up", "-listen", "127.0.0.1:0", "-admin", "127.0.0.1:0", "-etcd-listen", "127.0.0.1:0",
		"-colos", "ams,us-fra,iad", "-engines", "1", "-latency", "ams-us-fra=8ms,ams-iad=80ms", "-latency", "entry-ams=30ms", "-ttft", "0s", "-itl", "0s")
	out.await(t, "Ctrl-C stops the fleet.")
	for _, want := range []string{"entry-ams    30ms", "entry-us-fra 38ms", "entry-iad    110ms"} {
		if !strings.Contains(out.String(), "latency  "+want+"\n") {
			t.Errorf("nowhere %q in\n%s", want, out.String())
		}
	}
	began := time.Now()
	if got := chatStatus(t, regexp.MustCompile(`http://\S+/v1\b`).FindString(out.String()), ""); got != http.StatusOK {
		t.Errorf("a chat: %d", got)
	}
	if took := time.Since(began); took < 30*time.Millisecond {
		t.Errorf("a chat took %v", took)
	}
	if err := end(); err != nil {
		t.Errorf("up ended with %v\n%s", err, notes.String())
	}
}

func chatStatus(t *testing.T, url, key string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/chat/completions", strings.NewReader(`{"model":"default","max_tokens":1,"messages":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

// A model that the engine does not list is an error at the start, with the names that it lists.
func TestUpChecksTheModelOfAnEngine(t *testing.T) {
	engine := simengine.New(simengine.Config{Models: []string{"m"}})
	server := httptest.NewServer(engine)
	defer engine.Close()
	defer server.Close()
	run(t, "", "up", "-engine-url", server.URL, "-engine-model", "typo", "-listen", "127.0.0.1:0", "-admin", "127.0.0.1:0").fail(t,
		`does not have the model "typo" (-engine-model); it lists m`)
}
