package sinks_test

import (
	"fmt"
	"strings"
	"testing"

	"colonnade/analytics"
	"colonnade/analytics/sinks"
)

func TestParse(t *testing.T) {
	f := func(raw, want string) {
		t.Helper()
		s, err := sinks.Parse(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			return
		}
		got := fmt.Sprintf("%s %s %s %d %d %s %s %q %q %s %v", s.Name, s.Scheme.Name, s.URL.Host+" "+s.URL.Path, s.BatchEvents, s.BatchBytes, s.Every,
			s.Compression, s.Kinds, s.Accounts, s.Credential, s.Params)
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", raw, got, want)
		}
	}
	f("file:/var/log/e.jsonl", `file-var-log-e.jsonl file  /var/log/e.jsonl 1000 1048576 1s  [] []  map[]`)
	f("file:///e.jsonl?keep=3&name=disk", `disk file  /e.jsonl 1000 1048576 1s  [] []  map[keep:3]`)
	f("file:e.jsonl", `file-e.jsonl file  e.jsonl 1000 1048576 1s  [] []  map[]`)
	f("unix:/run/x.sock?kinds=inference,forward&accounts=a,b", `unix-run-x.sock unix  /run/x.sock 1000 1048576 1s  ["inference" "forward"] ["a" "b"]  map[]`)
	f("http://c:8080/in?batch_events=5&batch_bytes=2MiB&every=250ms&compression=zstd&credential=env:TOKEN&query=a%3D1",
		`http-c-8080-86121fea http c:8080 /in 5 2097152 250ms zstd [] [] env:TOKEN map[query:a=1]`)
	f("https://c/", `https-c https c / 1000 1048576 1s gzip [] []  map[]`)
	f("kafka://a:9092,b:9092/events", `kafka-a-9092-b-9092-events kafka a:9092,b:9092 /events 1000 1048576 1s zstd [] []  map[]`)
	f("nats://me@a:4222,b:4222/s?tls=true", `nats-a-4222-b-4222-s nats a:4222,b:4222 /s 1000 1048576 1s  [] []  map[tls:true]`)
	f("s3://bucket/p?region=x", `s3-bucket-p s3 bucket /p 50000 33554432 5m0s  [] []  map[region:x]`)
}

func TestParseRefuses(t *testing.T) {
	f := func(raw string, want ...string) {
		t.Helper()
		_, err := sinks.Parse(raw)
		if err == nil {
			t.Errorf("%s was accepted", raw)
			return
		}
		for _, text := range want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: the error %q lacks %q", raw, err, text)
			}
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error %q has a password", err)
		}
	}
	f("", "is not a URL", "file:/")
	f("/var/log/x", "is not a URL")
	f("kafak://b/t", `unknown scheme "kafak"`, "kafka", "file")
	f("http://u:secret@c/in", "has a password", "credential=env:NAME")
	f("postgres://u:secret@db/x", "has a password")
	f("nats://u:secret@a:1,b:2/S", "has a password")
	f("nats:u:secret@h/x", `sink "nats:…@h/x": lacks a host`)
	f("nats:u:secret/x", "lacks a host")
	f("postgres://u:secret/x", `sink "postgres://u:…/x": is not a valid URL`)
	f("postgres://u:pa?secret@h/x", `sink "postgres://…": is not a valid URL`)
	f("postgres://u:secret?more@h/x", `sink "postgres://…": is not a valid URL`)
	f("postgres://u:12?secret@h/x", `sink "postgres://…": has settings that cannot be read`)
	f("postgres://u:secret@b@db:5432/x?sslmode=a", `sink "postgres://…@db:5432/x": `)
	f("http:[::1]:80/in?query=user@secret", `sink "http:…": lacks a host`)
	f("kafka:a:9092,[::1]:9092/t", `sink "kafka:a:9092,[::1]:9092/t": lacks a host`)
	f("file:/a:b@c/?keep=1", `sink "file:/a:b@c/": must name a file`)
	f("http://user@c/in", "auth=basic")
	f("http://c/secret?auth=basic", `sink "http://c/…": auth=basic`)
	f("https://c/T0/se@secret?auth=basic", `sink "https://…": auth=basic`)
	f("htps://c/secret", `sink "htps://c/…": unknown scheme`)
	f("http:///in", "lacks a host", "http://collector")
	f("file:/var/log/", "must name a file")
	f("file://host/x", "must name a file")
	f("file:/x?batch_event=5", `unknown setting "batch_event"`, "batch_events")
	f("file:/x?compression=gzip", `unknown setting "compression"`)
	f("file:/x?batch_events=0", "batch_events=0", "from 1 to")
	f("http://c/x?batch_bytes=5MiB", "batch_bytes=5MiB", "4194304")
	f("file:/x?batch_bytes=99999999999999999999", "batch_bytes")
	f("file:/x?every=1", "every=1", "1s")
	f("file:/x?every=1s&every=2s", "twice")
	f("file:/x?kinds=inferences", `unknown kind "inferences"`, "forward")
	f("file:/x?name=a/b", "name=a/b")
	f("file:/x?name=..", "name=..")
	f("http://c/x?compression=brotli", "compression=brotli")
	f("http://c/x?credential=secret", "credential", "env:NAME")
	f("http://c/x?auth=basic", "auth=basic: there is no credential", "credential=env:NAME")
	f("otlp://c?auth=digest&credential=env:A", "auth=digest", "bearer")
	f("http://c/x#frag", "fragment")
	f("http://c/x?a=%zz", "cannot be read")
}

func TestNameOf(t *testing.T) {
	f := func(raw, want string) {
		t.Helper()
		if got := sinks.NameOf(raw); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
	f("http://c/x?auth=basic&name=billing", "billing")
	f("http://c/x?auth=basic", "http-c-b3d1db31")
	f("kafka://a:1,b:2/t", "kafka-a-1-b-2-t")
	f("file:/x?name=a/b", "file-x")
	f("fil:/x?name=a", "fil:/x")
	f("https://u:secret@c/in", "https://…@c/…")
	f("a\nb", `a\nb`)
	f("", "-")
}

func TestParseDocument(t *testing.T) {
	s, err := sinks.ParseDocument("billing", "file:billing.jsonl?keep=9", map[string]string{"kinds": "inference"})
	if err != nil || s.Name != "billing" || s.Param("keep", "") != "9" || fmt.Sprint(s.Kinds) != "[inference]" {
		t.Errorf("%+v, %v", s, err)
	}
	f := func(url, want string) {
		t.Helper()
		if _, err := sinks.ParseDocument("x", url, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
	f("postgres://db/x", "colonnade ship -data-dir DIR -sink postgres:")
	f("file:/etc/cron.d/x", "DATA-DIR/sinks")
	f("file:../x", "DATA-DIR/sinks")
	f("http://c/x?kinds=request", "kinds is a field")
	f("what", "not a URL")
	f("https://c/x?auth=header:X-Key", "there is no credential")
}

func TestKindsAreThoseOfEvents(t *testing.T) {
	for _, kind := range []analytics.Kind{analytics.KindInference, analytics.KindRequest, analytics.KindForward, analytics.KindEngine} {
		if _, err := sinks.Parse("file:/x?kinds=" + string(kind)); err != nil {
			t.Error(err)
		}
	}
	for _, s := range sinks.Schemes() {
		if _, err := sinks.Parse(s.Example); err != nil {
			t.Errorf("the example of %s: %v", s.Name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range sinks.Schemes() {
		f.Add(s.Example)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		s, err := sinks.Parse(raw)
		if err == nil && (s.Name == "" || strings.ContainsAny(s.Name, "/\\ \x00") || s.BatchEvents < 1 || s.BatchBytes > 64<<20) {
			t.Errorf("%q: %+v", raw, s)
		}
	})
}

func TestJoin(t *testing.T) {
	f := func(joined string, want ...string) {
		t.Helper()
		if got := sinks.Join(strings.Split(joined, ",")); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("%s: %q, want %q", joined, got, want)
		}
	}
	f("file:/x", "file:/x")
	f("file:/x,http://c/y", "file:/x", "http://c/y")
	f("file:/x?accounts=a,b,unix:/y", "file:/x?accounts=a,b", "unix:/y")
	f("kafka://a:1,b:2/t,s3://b", "kafka://a:1,b:2/t", "s3://b")
	f("kafak://a/t,what://b", "kafak://a/t", "what://b")
	f("file:/x,fil:/y", "file:/x", "fil:/y")
}
