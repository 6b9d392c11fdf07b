package trust_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// A form is sent on byte by byte but for the model's name, wherever that is.
func TestFormsAreSpliced(t *testing.T) {
	t.Parallel()
	engine, documents := startTape(t)
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, documents+taggedModel)
	f.WatchShared(8)
	const head = "--XX\r\nContent-Disposition: form-data; name="
	file := head + "\"file\"; filename=\"model.wav\"\r\nContent-Type: audio/wav\r\n\r\n" + strings.Repeat("\x00\xff\r\n--XY\r\n--X\r\n", 10<<20/14) + "\r\n"
	model := func(name string) string { return head + "\"model\"\r\n\r\n" + name + "\r\n" }
	rest := head + "\"prompt\"\r\n\r\nthe model is \"tagged\"\r\n" + head + "\"timestamp_granularities[]\"\r\n\r\nword\r\n--XX--\r\n"
	for _, c := range []struct {
		name, framing string
		body          func(model string) string
	}{
		{"model after the file", "Content-Length: %d", func(name string) string { return file + model(name) + rest }},
		{"model before the file, in chunks", "Transfer-Encoding: chunked", func(name string) string { return model(name) + file + rest }},
	} {
		content := c.body("tagged")
		framing := strings.Replace(c.framing, "%d", fmt.Sprint(len(content)), 1)
		if framing == c.framing {
			content = wiretest.Chunked(content, 1<<20)
		}
		w := wiretest.Dial(t, f.Entry.Address)
		w.Send("POST /v1/audio/transcriptions HTTP/1.1", []string{"Host: fleet", "Content-Type: multipart/form-data; boundary=XX", framing}, content)
		if a := w.Read(); a.Status != 200 {
			t.Errorf("%s: %d %.300q", c.name, a.Status, a.Body)
		}
		w.Close()
		heard, garbled := engine.rewind()
		if len(heard) != 1 || len(garbled) > 0 {
			t.Errorf("%s: the engine got %d requests", c.name, len(heard))
			continue
		}
		want := c.body("org/name+v1")
		head, got, _ := strings.Cut(heard[0], "\r\n\r\n")
		if sha256.Sum256([]byte(got)) != sha256.Sum256([]byte(want)) || !strings.Contains(head, fmt.Sprintf("\r\nContent-Length: %d", len(want))) {
			t.Errorf("%s: the engine got %d bytes, want %d, and not those: %.300q", c.name, len(got), len(want), head)
		}
	}
}

// A compressed body is refused by its header alone, with an error that says what to do. A client's Accept-Encoding is not
// sent on.
func TestCompressedBodiesAreRefused(t *testing.T) {
	engine, documents := startTape(t)
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, documents)
	f.Watch(8)
	for _, coding := range []string{"gzip", "deflate", "br", "zstd", "gzip, gzip", "identity", "x-gzip", "GZIP", "compress", "aws-chunked", "gzip;q=1"} {
		for _, framing := range []string{"Content-Length: 20", "Content-Length: 10000000", "Transfer-Encoding: chunked"} {
			w := wiretest.Dial(t, f.Entry.Address)
			began := time.Now()
			w.Send(firstLine, []string{"Host: fleet", "Content-Type: application/json", "Content-Encoding: " + coding, framing}, "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x00 and more.")
			a := w.Read()
			if e := a.APIError(t); a.Status != 400 || e.Number != 40001 || !strings.Contains(e.Message, "content-encoding") || !strings.Contains(e.Message, "send the body as it is") {
				t.Errorf("%s, %s: %d %+v", coding, framing, a.Status, e)
			}
			if took := time.Since(began); took > 30*time.Second { // it has not waited for the body
				t.Errorf("%s, %s: after %v", coding, framing, took)
			}
			w.Close()
		}
	}
	engine.check(t, "compressed")
	if a := f.RawChat(fleettest.StubBody, "Accept-Encoding: gzip, br, zstd", "TE: gzip, trailers"); a.Status != 200 || a.Header.Get("Content-Encoding") != "" {
		t.Errorf("answered %d %v", a.Status, a.Header)
	}
	engine.check(t, "a client that accepts compression", fleettest.StubBody)
}

// The body of a request that is refused for its model is read, with either framing, and the next request follows behind it.
func TestRefusedBodiesAreRead(t *testing.T) {
	engine, documents := startTape(t)
	document, key := fleettest.AccountWithKey("none", "models: [another]")
	f := fleettest.StartClosed(t, onebox.Config{Engine: fleettest.QuickEngine(4), Colos: []string{"ams"}}, documents+strings.TrimPrefix(document, "\n"))
	f.Key = strings.TrimPrefix(key, "Bearer ")
	hidden := strings.Repeat("POST "+fleettest.ChatPath+" HTTP/1.1\r\nHost: fleet\r\nContent-Length: 0\r\n\r\n", 300)
	form := "--XX\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nown\r\n--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n" + hidden + "\r\n--XX--\r\n"
	const next = "GET /v1/models HTTP/1.1\r\nHost: fleet\r\nConnection: close\r\n"
	for _, c := range []struct{ path, contentType, body string }{{"/v1/audio/transcriptions", "multipart/form-data; boundary=XX", form}, {fleettest.ChatPath, "application/json", fleettest.StubBody + strings.Repeat(" \r\n", 5000)}} {
		for _, framing := range []string{fmt.Sprintf("Content-Length: %d", len(c.body)), "Transfer-Encoding: chunked"} {
			for _, expect := range []string{"x-note: a", "Expect: 100-continue"} {
				content := c.body
				if framing == "Transfer-Encoding: chunked" {
					content = wiretest.Chunked(c.body, 1000)
				}
				w := wiretest.Dial(t, f.Entry.Address)
				w.Send("POST "+c.path+" HTTP/1.1", []string{"Host: fleet", "Authorization: " + key, "Content-Type: " + c.contentType, expect, framing}, content+next+"Authorization: "+key+"\r\n\r\n")
				var statuses []int
				for len(statuses) < 9 {
					a := w.Read()
					if a.Status == 0 {
						break
					}
					if a.Status != 100 {
						statuses = append(statuses, a.Status)
					}
				}
				if got := fmt.Sprint(statuses); got != "[404 200]" {
					t.Errorf("%s, %s, %s: answered %s", c.path, framing, expect, got)
				}
				w.Close()
			}
		}
	}
	engine.check(t, "refused")
}
