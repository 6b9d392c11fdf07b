package cost

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// head is what clients and the engine need of the head of a message.
type head struct {
	first   string // line
	length  int    // of the body; negative: unknown
	chunked bool
	key     string // of a WebSocket handshake
}

// readHead reads the head of a request or an answer.
func readHead(in *bufio.Reader) (h head, err error) {
	h.length = -1
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return h, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if first {
			h.first = string(line)
			continue
		}
		if len(line) == 0 {
			return h, nil
		}
		if err := h.add(line); err != nil {
			return h, err
		}
	}
}

func (h *head) add(line []byte) (err error) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimSpace(value)
	switch len(name) {
	case len("Content-Length"):
		if bytes.EqualFold(name, []byte("Content-Length")) {
			h.length, err = strconv.Atoi(string(value))
		}
	case len("Transfer-Encoding"):
		if bytes.EqualFold(name, []byte("Transfer-Encoding")) {
			h.chunked = bytes.EqualFold(value, []byte("chunked"))
		} else if bytes.EqualFold(name, []byte("Sec-WebSocket-Key")) { // it has as many letters
			h.key = string(value)
		}
	}
	return err
}

// streamShape is how the engine answers a streamed request: it is part of the prompt, which every gateway passes on.
type streamShape struct{ chunks, gapMillis int }

const shapeTag = "answer with "

func (s streamShape) String() string {
	return fmt.Sprintf("%s%d chunks, %d ms apart", shapeTag, s.chunks, s.gapMillis)
}

// shapeIn finds the shape in a body.
func shapeIn(body []byte) (s streamShape, streamed bool) {
	_, text, found := bytes.Cut(body, []byte(shapeTag))
	if !found {
		return s, false
	}
	_, err := fmt.Sscanf(string(text), "%d chunks, %d ms apart", &s.chunks, &s.gapMillis)
	return s, err == nil
}

// promptBytes makes a body of about 1 KB.
const promptBytes = 930

// chatRequest returns the bytes of a request: streamed in a shape, or plain.
func chatRequest(key, model string, shape *streamShape) []byte {
	stream, prompt := "false", ""
	if shape != nil {
		stream, prompt = "true", shape.String()+" "
	}
	body := `{"model":"` + model + `","stream":` + stream + `,"messages":[{"role":"user","content":"` + prompt +
		strings.Repeat("a", promptBytes-len(prompt)) + `"}]}`
	return fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\n"+
		"Content-Length: %d\r\n\r\n%s", key, len(body), body)
}
