package transport

import "testing"

// BenchmarkHead parses the head of a colo server's answer, and looks for as many of its lines as an entry does.
func BenchmarkHead(b *testing.B) {
	const raw = "HTTP/1.1 200 OK\r\nDate: Mon, 23 Nov 2026 12:00:00 GMT\r\nContent-Type: application/json\r\nContent-Length: 1503\r\n" +
		"x-colonnade-colo: ams\r\nx-colonnade-load: f=15,h=1,l=16,q=0,w=0\r\nx-colonnade-queued-ms: 0\r\nx-colonnade-endpoint: gpu-7\r\n" +
		"x-colonnade-usage: 12,64,0\r\nx-ratelimit-limit-requests: 100\r\n\r\n"
	b.ReportAllocs()
	for b.Loop() {
		h, err := parseHead(raw)
		if err != nil {
			b.Fatal(err)
		}
		for _, name := range []string{"x-colonnade-load", "x-colonnade-queued-ms", "x-colonnade-verdict", "content-type", "x-colonnade-visits", "x-colonnade-end", "x-request-id", "retry-after"} {
			_ = h.get(name)
		}
	}
}
