package wiretest

import (
	"fmt"
	"strconv"
	"strings"
)

// Chunked encodes a body in chunks of size bytes, with the last chunk.
func Chunked(body string, size int) string {
	var b strings.Builder
	for body != "" {
		n := min(size, len(body))
		b.WriteString(strconv.FormatInt(int64(n), 16) + "\r\n" + body[:n] + "\r\n")
		body = body[n:]
	}
	return b.String() + "0\r\n\r\n"
}

// EncodeResponse returns a response with a Content-Length, as it stands on the wire. status is "200 OK"; lines are further
// header lines, and come first.
func EncodeResponse(status, body string, lines ...string) string {
	lines = append(lines, "Content-Length: "+strconv.Itoa(len(body)))
	return "HTTP/1.1 " + status + "\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n" + body
}

// MultipartForm returns a multipart body and its content type. fields are name=value, separated by spaces; a file of so
// many KiB follows them.
func MultipartForm(fields string, kib int) (body, contentType string) {
	var b strings.Builder
	part := func(head, content string) {
		fmt.Fprintf(&b, "--frontier\r\nContent-Disposition: form-data; %s\r\n\r\n%s\r\n", head, content)
	}
	for field := range strings.FieldsSeq(fields) {
		name, value, _ := strings.Cut(field, "=")
		part(fmt.Sprintf("name=%q", name), value)
	}
	part(`name="file"; filename="speech.mp3"`, strings.Repeat("x", kib<<10))
	b.WriteString("--frontier--\r\n")
	return b.String(), "multipart/form-data; boundary=frontier"
}
