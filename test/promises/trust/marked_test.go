package trust_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"
	"syscall"
)

// marked is a request that is full of its own mark, which names its account. An answer with a byte of another request
// contains "marked" too often.
type marked struct {
	account, number int
	kind            markedKind
	size            int // of the body, about
	stream          bool
	leaveAfter      int // bytes of the response; negative = it stays
}

type markedKind string

const (
	markedChat   markedKind = "/chat/completions"
	markedEmbed  markedKind = "/embeddings"
	markedForm   markedKind = "/audio/transcriptions"
	markedRefuse markedKind = "refuse" // the engine answers 400, with the mark
	markedFail   markedKind = "fail"   // 500
	markedSilent markedKind = "silent" // no response until the client has left
	markedHalf   markedKind = "half"   // the client leaves in the middle of its body
)

// markedSizes are near those of pooled memory.
func markedSizes() []int {
	return []int{1 << 10, 8 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20}
}

func (m marked) mark() string { return fmt.Sprintf("marked%d.%07d.", m.account, m.number) }

// id is the request's label in events.
func (m marked) id() string { return strings.TrimSuffix(m.mark(), ".") }

// filler is the content of the body.
func (m marked) filler() string {
	return strings.Repeat(m.mark(), m.size/len(m.mark())+1)[:m.size]
}

// path is the path of the request.
func (m marked) path() string {
	if strings.HasPrefix(string(m.kind), "/") {
		return string(m.kind)
	}
	return string(markedChat)
}

// body returns the body and its content type.
func (m marked) body() (body []byte, contentType string) {
	if m.kind != markedForm {
		return fmt.Appendf(nil, `{"model":"own","stream":%v,"user":"%s %s","messages":[%q],"input":"x"}`,
			m.stream, m.mark(), m.kind, m.filler()), "application/json"
	}
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.WriteField("user", m.mark()+" "+string(m.kind))
	file, _ := w.CreateFormFile("file", "speech.mp3")
	_, _ = io.WriteString(file, m.filler())
	_ = w.WriteField("model", "own")
	_ = w.Close()
	return b.Bytes(), w.FormDataContentType()
}

// randomMarked makes the request of a number.
func randomMarked(number, accounts int) marked {
	sizes := markedSizes()
	m := marked{account: rand.IntN(accounts), number: number, kind: markedChat, stream: rand.IntN(2) == 0, leaveAfter: -1}
	// Mostly small, and a little more or less than a size of pooled memory.
	m.size = sizes[min(rand.IntN(len(sizes)), rand.IntN(len(sizes)), rand.IntN(len(sizes)))] - 300 + rand.IntN(600)
	switch rand.IntN(16) {
	case 0:
		m.kind, m.stream = markedForm, false
	case 1, 2:
		m.kind, m.stream = markedEmbed, false
	case 3:
		m.kind = markedRefuse
	case 4:
		m.kind = markedFail
	case 5:
		m.kind = markedSilent
	case 6:
		m.kind = markedHalf
	case 7:
		m.leaveAfter = rand.IntN(m.size)
	}
	return m
}

// markedEngine answers with the content of the request, and records each body that has another mark.
type markedEngine struct {
	mu      sync.Mutex // guards the fields below
	foreign []string
	served  int
}

func (e *markedEngine) note(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.foreign = append(e.foreign, what)
}

func (e *markedEngine) answer(w http.ResponseWriter, r *http.Request) {
	user, filler, err := readMarked(r)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		panic(http.ErrAbortHandler) // its client left while the body was on the way; the others judge their responses
	}
	mark, kind, _ := strings.Cut(user, " ")
	if err != nil || !strings.HasPrefix(mark, "marked") {
		e.note(fmt.Sprintf("%s: %q with %.300q: %v", r.URL.Path, user, filler, err))
		panic(http.ErrAbortHandler)
	}
	if strings.Repeat(mark, len(filler)/len(mark)+1)[:len(filler)] != filler {
		e.note(fmt.Sprintf("%s: %q with %.300q", r.URL.Path, user, filler))
	}
	e.mu.Lock()
	e.served++
	e.mu.Unlock()
	stream := strings.Contains(r.Header.Get("Accept"), "event-stream")
	switch {
	case markedKind(kind) == markedRefuse:
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"error":{"message":%q,"code":400}}`, mark)
	case markedKind(kind) == markedFail:
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, mark)
	case markedKind(kind) == markedSilent:
		<-r.Context().Done()
	case stream:
		w.Header().Set("Content-Type", "text/event-stream")
		for piece := range pieces(filler, 188*len(mark)) { // complete marks
			_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", piece)
		}
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"said": filler})
	}
}

// readMarked reads the mark and the content of a request.
func readMarked(r *http.Request) (user, filler string, err error) {
	model := ""
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
		if err := r.ParseMultipartForm(4 << 20); err != nil {
			return "", "", err
		}
		file, _, err := r.FormFile("file")
		if err != nil {
			return "", "", err
		}
		defer file.Close()
		text, err := io.ReadAll(file)
		if err != nil {
			return "", "", err
		}
		user, filler, model = r.FormValue("user"), string(text), r.FormValue("model")
	} else {
		var body struct {
			Model, User string
			Messages    []string
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			return "", "", err
		}
		user, filler, model = body.User, strings.Join(body.Messages, ""), body.Model
	}
	if model != "own" {
		return user, filler, fmt.Errorf("the model is %q", model)
	}
	return user, filler, nil
}

// pieces cuts a text into pieces of a size.
func pieces(text string, size int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for len(text) > 0 {
			n := min(size, len(text))
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}
