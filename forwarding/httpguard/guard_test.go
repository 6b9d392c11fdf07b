package httpguard_test

import (
	"slices"
	"strings"
	"testing"

	"colonnade/forwarding/httpguard"
)

// head returns a request head of its first line and its header lines.
func head(first string, lines ...string) httpguard.RequestHead {
	part := strings.SplitN(first, " ", 3)
	raw := strings.Join(append(lines, "", ""), "\r\n")
	return httpguard.RequestHead{Method: []byte(part[0]), Target: []byte(part[1]), Protocol: []byte(part[2]), Raw: []byte(raw)}
}

const (
	post = "POST /v1/chat/completions HTTP/1.1"
	get  = "GET /v1/models HTTP/1.1"
	host = "Host: api.example.org"
)

func TestCheckHeadAccepts(t *testing.T) {
	for name, h := range map[string]httpguard.RequestHead{
		"sdk":                   {Method: []byte("POST"), Target: []byte("/v1/chat/completions"), Protocol: []byte("HTTP/1.1"), Raw: []byte(sdkHead)},
		"chunked":               head(post, host, "Transfer-Encoding: chunked"),
		"length":                head(post, host, "Content-Length: 12"),
		"length with spaces":    head(post, host, "Content-Length: \t 12 "),
		"empty get":             head(get, host, "Content-Length: 0"),
		"http 1.0 without host": head("GET /v1/models HTTP/1.0"),
		"offer of HTTP/2":       head("POST /v1/chat/completions HTTP/1.1", host, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA", "Content-Length: 1"),
		"websocket":             head("GET /v1/realtime?model=m HTTP/1.1", host, "Connection: Upgrade", "Upgrade: websocket"),
		"expect":                head(post, host, "Expect: 100-Continue", "Content-Length: 1"),
		"absolute form":         head("GET http://API.example.org/v1/models HTTP/1.1", host),
		"absolute with port":    head("GET https://a:8080/v1/models HTTP/1.1", "Host: a:8080"),
		"tab in a value":        head(get, host, "X-Note: a\tb"),
		"beyond ASCII":          head(get, host, "X-Note: gr\u00fc\u00dfe"),
		"empty value":           head(get, host, "X-Note:"),
		"long name":             head(get, host, strings.Repeat("x", 300)+": 1"),
		"ours, documented":      head(post, host, "x-colonnade-queue: never", "x-colonnade-deadline-ms: 5", "Content-Length: 1"),
		"foreign underscore":    head(get, host, "sec_ch_ua: x", "my.header: y"),
		"connection list":       head(get, host, "Connection: keep-alive, TE", "TE: trailers"),
		"connection twice":      head(get, host, "Connection: close", "Connection: , close"),
		"cookies twice":         head(get, host, "Cookie: a=1", "Cookie: b=2"),
		"ipv6 host":             head(get, "Host: [::1]:8080"),
		"query":                 head("GET /v1/realtime?model=a%2Fb HTTP/1.1", host),
		"percents":              head("GET /v1/models/a%2Fb%00?100% HTTP/1.1", host),
	} {
		if err := httpguard.CheckHead(h); err != nil {
			t.Errorf("%s: refused: %v", name, err)
		}
	}
}

func TestCheckHeadAcceptsWithoutBlankLine(t *testing.T) {
	h := head(get)
	h.Raw = []byte(host + "\r\n")
	if err := httpguard.CheckHead(h); err != nil {
		t.Error(err)
	}
	h.Host = []byte("API.example.org")
	if err := httpguard.CheckHead(h); err != nil {
		t.Error(err)
	}
}

// The number of header lines and the announced length of the body are bounded.
func TestCheckHeadLimits(t *testing.T) {
	f := func(name string, h httpguard.RequestHead, number int) {
		t.Helper()
		switch err := httpguard.CheckHead(h); {
		case number == 0 && err != nil:
			t.Errorf("%s: refused: %v", name, err)
		case number != 0 && (err == nil || err.Number != number || err.Status != number/100):
			t.Errorf("%s: %v, want %d", name, err, number)
		}
	}
	lines := func(n int) []string { return append([]string{host}, slices.Repeat([]string{"X-Note: a"}, n-1)...) }
	f("as many lines as may be", head(get, lines(100)...), 0)
	f("one more", head(get, lines(101)...), 43101)
	f("many more", head(get, lines(5000)...), 43101)
	h := head(post, host, "Content-Length: 1000")
	h.MaxBody = 1000
	f("as long as may be", h, 0)
	h.MaxBody = 999
	f("one byte more", h, 41301)
	h.MaxBody = 0
	f("without a limit", h, 0)
}

func TestCheckHeadRefuses(t *testing.T) {
	f := func(name string, h httpguard.RequestHead) {
		t.Helper()
		if err := httpguard.CheckHead(h); err == nil {
			t.Errorf("%s: accepted", name)
		} else if err.Status != 400 || err.Number != 40001 {
			t.Errorf("%s: refused with %v", name, err)
		}
	}
	// Framing.
	f("length and chunked", head(post, host, "Content-Length: 5", "Transfer-Encoding: chunked"))
	f("chunked and length 0", head(post, host, "Transfer-Encoding: chunked", "Content-Length: 0"))
	f("two lengths", head(post, host, "Content-Length: 5", "content-length: 5"))
	f("list of lengths", head(post, host, "Content-Length: 5, 5"))
	f("signed length", head(post, host, "Content-Length: +5"))
	f("negative length", head(post, host, "Content-Length: -5"))
	f("hex length", head(post, host, "Content-Length: 0x5"))
	f("empty length", head(post, host, "Content-Length:"))
	f("huge length", head(post, host, "Content-Length: 18446744073709551621"))
	f("two codings", head(post, host, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"))
	f("gzip, chunked", head(post, host, "Transfer-Encoding: gzip, chunked"))
	f("identity", head(post, host, "Transfer-Encoding: identity"))
	f("xchunked", head(post, host, "Transfer-Encoding: xchunked"))
	f("Chunked", head(post, host, "Transfer-Encoding: Chunked"))
	f("chunked with vertical tab", head(post, host, "Transfer-Encoding: \x0bchunked"))
	f("chunked in 1.0", head("POST /v1/completions HTTP/1.0", host, "Transfer-Encoding: chunked"))
	f("get with length", head(get, host, "Content-Length: 3"))
	f("get chunked", head(get, host, "Transfer-Encoding: chunked"))
	f("head with length", head("HEAD /v1/models HTTP/1.1", host, "Content-Length: 3"))
	f("trailer", head(post, host, "Transfer-Encoding: chunked", "Trailer: X-Checksum"))
	// Lines.
	f("folded", head(post, host, "X-Note: a", " b: c"))
	f("folded by tab", head(post, host, "X-Note: a", "\tContent-Length: 5"))
	f("folded first line", head(post, " Content-Length: 5", host))
	f("bare LF", head(post, host+"\nX-Colonnade-Hop: v1"))
	f("bare CR", head(post, host+"\rX-Colonnade-Hop: v1"))
	f("bare CR in value", head(post, host, "X-Note: a\rb"))
	f("LF LF", head(post, host+"\n\nGET / HTTP/1.1"))
	f("text behind", head(post, host, "", "GET /v1/models HTTP/1.1"))
	f("no colon", head(post, host, "Content-Length 5"))
	f("empty name", head(post, host, ": 5"))
	f("space before colon", head(post, host, "Content-Length : 5"))
	f("tab before colon", head(post, host, "X-Colonnade-Hop\t: v1"))
	f("space in name", head(post, host, "Content Length: 5"))
	f("NUL in name", head(post, host, "X-Note\x00: 5"))
	f("slash in name", head(post, host, "a/b: 5"))
	f("beyond ASCII in name", head(post, host, "Content\u2010Length: 5"))
	f("NUL in value", head(post, host, "X-Note: \x00"))
	f("DEL in value", head(post, host, "X-Note: aaaaaaaaaaaa\x7f"))
	f("DEL at the front of a value", head(post, host, "X-Note: \x7faaaaaaaaaaaa"))
	f("escape in value", head(post, host, "X-Note: aaaaaaaaaa\x1b[0maaaaaaaa"))
	// Names that would alias.
	for _, name := range []string{"content_length: 5", "Content.Length: 5", "transfer_encoding: chunked",
		"x_colonnade_hop: v1", "X-Colonnade_Hop: v1", "x.colonnade.hop: v1", "x_colonnade_anything: 1", "X_Request_Id: abcdefgh",
		"content_type: text/plain", "x_stainless_timeout: 1", "sec_websocket_version: 13", "sec-websocket.key: a", "proxy_connection: close", "api_key: a", "X_Api_Key: a", "x-api.key: a"} {
		f("alias "+name, head(post, host, name))
	}
	// Duplicates.
	for _, line := range []string{"Host: api.example.org", "Content-Type: application/json", "Authorization: Bearer a", "Api-Key: a", "X-Api-Key: a",
		"X-Colonnade-Hop: v1", "x-colonnade-queue: never", "X-Request-Id: abcdefgh", "Expect: 100-continue", "Content-Encoding: gzip",
		"x-session-affinity: a", "traceparent: 00", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Origin: null", "Sec-Fetch-Site: none", "x-colonnade-force-colo: ams", "x-colonnade-fallback: never", "x-colonnade-model: m"} {
		f("twice "+line, head(post, host, "Content-Length: 1", line, strings.ToLower(line)))
		f("twice apart "+line, head(post, host, "Content-Length: 1", line, "Accept: */*", strings.ToUpper(line)))
	}
	// Connection.
	for _, listed := range []string{"X-Colonnade-Hop", "authorization", "close, content-length", "x_colonnade_hop", "Transfer-Encoding",
		"host", "api-key", "close, x-api-key", "a b", "keep-alive,\tx-colonnade-queue"} {
		f("connection: "+listed, head(post, host, "Connection: "+listed))
	}
	// Host and target.
	f("no host", head(get, "Accept: */*"))
	f("empty host", head(get, "Host:"))
	for _, h := range []string{"a b", "a/b", "user@a", "a,b", "a\\b", "a?b", "a#b", "\u00e4"} {
		f("host "+h, head(get, "Host: "+h))
	}
	other := head(get, host)
	other.Host = []byte("evil.example.org")
	f("server saw another host", other)
	for _, target := range []string{"http://evil.example.org/v1/models", "http://api.example.org:81/v1/models", "http://api.example.org@evil/v1/models",
		"ftp://api.example.org/v1/models", "http://api.example.org", "http:///v1/models", "http://api.example.org?x", "api.example.org:80",
		"*", "v1/models", "//api.example.org/v1/models#x", "/v1/models#x", "/v1/m\x00", "/v1/m\x7f", "/v1/\u00e4", "/v1/m\r\nX: y", "/v1/%", "/v1/%2", "/v1/%zz?a", "http://api.example.org/%", ""} {
		h := head(get, host)
		h.Target = []byte(target)
		f("target "+target, h)
	}
	// Version, method, expectations, upgrades.
	for _, version := range []string{"HTTP/1.2", "HTTP/0.9", "HTTP/2.0", "HTTP/1.1 ", "http/1.1", "HTTP/1.10", "HTTP/01.1", ""} {
		h := head(get, host)
		h.Protocol = []byte(version)
		f("version "+version, h)
	}
	f("method", head("GE\x00T /v1/models HTTP/1.1", host))
	f("expect", head(post, host, "Expect: 200-ok"))
	f("upgrade of a post", head(post, host, "Upgrade: websocket"))
	f("upgrade list", head(get, host, "Upgrade: websocket, h2c"))
	f("upgrade in 1.0", head("GET /v1/realtime HTTP/1.0", host, "Upgrade: websocket"))
}

func TestCheckHeadRefusesMethods(t *testing.T) {
	for _, method := range []string{"TRACE", "CONNECT"} {
		err := httpguard.CheckHead(head(method+" /v1/models HTTP/1.1", host))
		if err == nil || err.Number != 40501 || err.Allow == "" {
			t.Errorf("%s: %v", method, err)
		}
	}
}

func TestCheckHeadDoesNotRepeatSecrets(t *testing.T) {
	for _, line := range []string{"Authorization Bearer cn_secret", "Authorization: Bearer cn_\x00secret", "cn_secret", "x-colonnade-hop: cn_secret\x01",
		"Connection: cn_secret, host", "Content-Length: cn_secret", "Expect: cn_secret", "Upgrade: cn_secret"} {
		err := httpguard.CheckHead(head(post, host, line))
		if err == nil || strings.Contains(err.Message, "secret") {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestCheckHeadDoesNotAllocate(t *testing.T) {
	h := httpguard.RequestHead{Method: []byte("POST"), Target: []byte("/v1/chat/completions"), Protocol: []byte("HTTP/1.1"), Raw: []byte(sdkHead)}
	if n := testing.AllocsPerRun(100, func() { httpguard.CheckHead(h) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

const sdkHead = "Host: 127.0.0.1:8080\r\nConnection: keep-alive\r\nAccept: application/json\r\nContent-Type: application/json\r\n" +
	"User-Agent: OpenAI/JS 6.9.1\r\nX-Stainless-Retry-Count: 0\r\nX-Stainless-Lang: js\r\nX-Stainless-Package-Version: 6.9.1\r\n" +
	"X-Stainless-OS: Linux\r\nX-Stainless-Arch: x64\r\nX-Stainless-Runtime: node\r\nX-Stainless-Runtime-Version: v20.19.2\r\n" +
	"Authorization: Bearer cn_0123456789_0123456789abcdef0123456789abcdef\r\nAccept-Language: *\r\nSec-Fetch-Mode: cors\r\n" +
	"Accept-Encoding: gzip, deflate\r\nContent-Length: 1024\r\n\r\n"

func BenchmarkCheckHead(b *testing.B) {
	head := httpguard.RequestHead{Method: []byte("POST"), Target: []byte("/v1/chat/completions"), Protocol: []byte("HTTP/1.1"), Raw: []byte(sdkHead)}
	b.ReportAllocs()
	for b.Loop() {
		if err := httpguard.CheckHead(head); err != nil {
			b.Fatal(err)
		}
	}
}
