package server_test

import (
	"fmt"
	"strings"
)

// differentialSeeds are requests that servers have been known to read in different ways, and proper ones.
func differentialSeeds() (all []string) {
	const body, first, rest = `{"model":"m"}`, "POST /v1/chat/completions HTTP/1.1", "\r\nHost: a\r\nContent-Type: application/json\r\n"
	const length, chunked = "Content-Length: 13", "d\r\n" + body + "\r\n0\r\n\r\n"
	asked := func(lines, content string) string { return first + rest + lines + "\r\n\r\n" + content }
	for _, lines := range []string{
		length, "content-length:\t13 ", "Content-Length: 013", length + "\r\n" + length, "Content-Length: 13, 13", "Content-Length: +13", "Content-Length: 0xd", "Content-Length: 13\x0b",
		"Content-Length : 13", "Content-Length:\r\n 13", " Content-Length: 13", "Content_Length: 13", "Content Length: 13", length + "\r\nConnection: close", length + "\r\nConnection: content-length",
		length + "\r\nX-Tenant: a\r\nx-tenant: b", length + "\r\nx-colonnade-hop: v1.a.b", length + "\r\nx-colonnade-queue:never\r\nX-Stainless-Timeout: 5", length + "\r\nX-Tenant: gr\xfc\xdfe",
		length + "\r\nX-Tenant: a\n" + length, length + "\r\nX-Tenant: a\rb", length + "\r\nX-Tenant: a\x00b", length + "\r\nHost: b", length + "\nX-Tenant: a", length + "\r\nX-Tenant:  \t ",
		length + "\r\nExpect: 100-continue", length + "\r\nExpect: 100-Continue", length + "\r\nUpgrade: h2c", length + "\r\nX-Tenant: " + strings.Repeat("a", 500),
		length + "\r\nAuthorization: Bearer x\r\nUser-Agent: \r\nAccept:*/*",
	} {
		all = append(all, asked(lines, body))
	}
	for _, lines := range []string{
		"Transfer-Encoding: chunked", "transfer-encoding:\tchunked\t", "Transfer-Encoding: CHUNKED", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, identity", "Transfer-Encoding: identity",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\n" + length, length + "\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nTrailer: X-Tenant",
		"Transfer-Encoding: \x0bchunked", "Transfer-Encoding:\r\n chunked", "Transfer_Encoding: chunked", "Transfer-Encoding : chunked", "X: y\nTransfer-Encoding: chunked", "X: y\rTransfer-Encoding: chunked",
		"Transfer-Encoding: chunked\r\nExpect: 100-continue", "Transfer-Encoding: chunked\r\nConnection: close",
	} {
		all = append(all, asked(lines, chunked))
	}
	for _, content := range []string{
		"d;a=b\r\n" + body + "\r\n0\r\n\r\n", "d \r\n" + body + "\r\n0\r\n\r\n", "d\t\r\n" + body + "\r\n0 \r\n\r\n", "0xd\r\n" + body + "\r\n0\r\n\r\n", "+d\r\n" + body + "\r\n0\r\n\r\n",
		"d\n" + body + "\r\n0\r\n\r\n", "d;a\n" + body + "\r\n0\r\n\r\n", "d;a\rb\r\n" + body + "\r\n0\r\n\r\n", "d;a=\"\r\n\"\r\n" + body + "\r\n0\r\n\r\n", "d\r\n" + body + "0\r\n\r\n", "d\r\n" + body + "\n0\r\n\r\n",
		"00000000000d\r\n" + body + "\r\n000\r\n\r\n", "000000000000000000d\r\n" + body + "\r\n0\r\n\r\n", "d\r\n" + body + "\r\n0\n\n", "d\r\n" + body + "\r\n0\r\n\n", "d\r\n" + body + "\r\n0\r\nX-Tenant: b\r\n\r\n",
		"d\r\n" + body + "\r\n0;a\r\n\r\n", "d\r\n" + body + "\r\n0\r\n\nX: y\r\n\r\n", "1\r\n{\r\nc\r\n" + body[1:] + "\r\n0\r\n\r\n", "D\r\n" + body + "\r\n0\r\n\r\n", "d\r\n" + body + "xx0\r\n\r\n",
		"FFFFFFFFFFFFFFF\r\n" + body, "d\r\n" + body + "\r\n0\r\n", "d\r\n" + body + "\r\n",
	} {
		all = append(all, asked("Transfer-Encoding: chunked", content))
	}
	for _, line := range []string{
		"POST /a HTTP/1.0", "POST /a HTTP/1.2", "POST http://a/b HTTP/1.1", "POST http://b/b HTTP/1.1", "POST //a/b?c HTTP/1.1", "POST /a#b HTTP/1.1", "POST /%2e%2e/%00?%0d HTTP/1.1", "PUT /a HTTP/1.1", "post /a HTTP/1.1",
		"\r\nPOST /a HTTP/1.1", "\nPOST /a HTTP/1.1", "POST  /a HTTP/1.1", "POST /a  HTTP/1.1", "POST /a HTTP/1.1 ", "GET /a HTTP/1.1", "HEAD /a HTTP/1.1", "OPTIONS * HTTP/1.1", "CONNECT a:80 HTTP/1.1", "TRACE /a HTTP/1.1",
		"POST http://u@a/b HTTP/1.1", "POST /a\\b HTTP/1.1", "POST /a;b HTTP/1.1", "POST /a% HTTP/1.1", "POST /a%2?b%c HTTP/1.1", "POST http://a/%zz HTTP/1.1", "POST https://a:80/b HTTP/1.1", "M-SEARCH /a HTTP/1.1", "POST /" + strings.Repeat("a", 300) + " HTTP/1.1",
	} {
		all = append(all, line+rest+length+"\r\n\r\n"+body, line+rest+"\r\n", line+rest+"Content-Length: 0\r\n\r\n", strings.ReplaceAll(line+rest, "\r\n", "\n")+length+"\n\n"+body,
			line+"\n"+strings.TrimPrefix(rest, "\r\n")+length+"\r\n\r\n"+body)
	}
	hidden := "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"
	return append(all, hidden+hidden, asked(fmt.Sprintf("Content-Length: %d", len(hidden)), hidden), asked("Content-Length: 5", body+hidden), asked("Content-Length: 100", body+hidden), asked("", body),
		asked("Content-Length: 6\r\nTransfer-Encoding: chunked", "0\r\n\r\nG"), "GET / HTTP/1.1\r\nHost: a\r\n\r\n"+asked(length, body), "GET /a HTTP/1.0\r\n\r\n", "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
		"GET /v1/realtime?model=m HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "")
}
