package simengine

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// answer is the answer to a request. Everything but its pace is known before it begins.
type answer struct {
	tokens int      // each takes ITL
	said   []string // these tokens, where they are text
	big    bool

	header [][2]string // of the response's head, beside those of HTTP

	// The unstreamed answer.
	wholeType string
	whole     func() []byte

	// The streamed answer: open, a piece for each token, tail, end.
	streamed   bool
	streamType string
	open       []byte                               // before the first token is due
	token      func(dst []byte, i int) []byte       // appends the i-th piece
	tail       []byte                               // closes the output that open began
	end        []byte                               // the API's proper end
	fail       func(dst []byte, f failPoint) []byte // appends the API's error event
	afterFail  []byte                               // what engines send after that event
	mute       bool                                 // an engine that fails in mid-stream says nothing, and ends the answer without its proper end
}

// failPoint is the place of an error event in a stream.
type failPoint struct {
	opened bool // open was sent
	tokens int  // pieces sent
	err    apiError
}

// job is one inference request on its way through the engine.
type job struct {
	e      *Engine
	w      http.ResponseWriter
	rc     *http.ResponseController
	ctx    context.Context // ends when the client leaves or the engine closes
	finish func()          // releases the resources of newJob
	fault  string
	words  words   // of the path's errors
	aside  bool    // the request takes no slot
	prompt *prompt // nil: no prompt is known yet
	ticket *ticket
	clock  clock
	buf    []byte
}

// newJob ends the context of a request with its client and with the engine. The caller must call finish.
func (e *Engine) newJob(w http.ResponseWriter, r *http.Request) *job {
	j := &job{e: e, w: w, rc: http.NewResponseController(w), words: openAIWords}
	ctx, cancel := context.WithCancel(r.Context())
	j.ctx = ctx
	followEngine := context.AfterFunc(e.ctx, cancel)
	// A handler that is blocked on a client that neither reads nor writes does not look at ctx: an expired deadline
	// ends its call.
	unblock := context.AfterFunc(ctx, func() {
		past := time.Unix(1, 0)
		_ = j.rc.SetReadDeadline(past) // fails if the connection is closed or hijacked
		_ = j.rc.SetWriteDeadline(past)
	})
	j.finish = func() {
		unblock()
		followEngine()
		cancel()
	}
	return j
}

// path is a path of an engine that answers requests for a model.
type path struct {
	read  reader
	shape func(*Engine, *call) answer
	words words // nil: OpenAI's
	aside bool  // requests take no slot and no time
	loose bool  // the engine does not look at the request's model, or there is none in it
}

// infer returns the handler of an API of OpenAI, given how its requests are read and how its answers look.
func (e *Engine) infer(read reader, shape func(*Engine, *call) answer) http.HandlerFunc {
	return e.handle(path{read: read, shape: shape})
}

// handle returns the handler of a path.
func (e *Engine) handle(p path) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		e.requests.Add(1)
		j := e.newJob(w, r)
		defer j.finish()
		j.aside = p.aside
		if p.words != nil {
			j.words = p.words
		}
		c, body, err := p.read(r)
		if c == nil {
			c = &call{}
		}
		e.record.add(r, c.model, body)
		if err == nil {
			err = e.resolve(c, p)
		}
		if err != nil {
			j.refuse(err)
			return
		}
		j.fault = e.faults.take(c.model)
		c.big, c.cached = j.fault == FaultBigAnswer, e.c.Cached
		a := p.shape(e, c)
		if !j.refuseByFault(&a) {
			j.prompt = &c.prompt
			if e.prefix == nil || j.aside {
				e.countPrompt(c)
			}
			j.admit(func() error {
				if j.prefill(c) {
					a = p.shape(e, c) // the answer says how much was cached
				}
				j.ticket.said = a.said
				return j.respond(&a)
			})
		}
	}
}

// resolve checks the model of a request, and takes the engine's first where none is needed.
func (e *Engine) resolve(c *call, p path) error {
	switch {
	case p.loose && c.model == "":
		c.model = e.names()[0]
	case c.model == "":
		return badRequest("model", "model is missing")
	case !e.serves(c.model):
		return modelNotFound(c.model)
	}
	return nil
}

// refuse answers with err if it is an apiError, and otherwise cuts the connection: the request could not be read.
func (j *job) refuse(err error) {
	var answer apiError
	if !errors.As(err, &answer) {
		panic(http.ErrAbortHandler)
	}
	j.fail(answer)
}

// fail answers with an error as the path words it.
func (j *job) fail(e apiError) {
	status, body := j.words(e)
	writeJSON(j.w, status, body)
}

// admit waits for a slot and calls run with it. When run fails, the slot is released before net/http cuts the
// connection, so that a client that waits for the connection to close finds a free slot.
func (j *job) admit(run func() error) {
	j.ticket = j.batch().arrive(j.prompt)
	defer j.ticket.leave(outcomeAborted) // has no effect if the answer came to its end
	err := j.ticket.wait(j.ctx)
	if err == nil {
		if !j.aside {
			j.clock = j.e.newClock(j.fault)
			defer j.clock.stop()
		}
		err = run()
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

// batch returns where the request takes its slot.
func (j *job) batch() *batch {
	if j.aside {
		return j.e.aside
	}
	return j.e.batch
}

// respond writes the answer, as the fault changes it.
func (j *job) respond(a *answer) error {
	for _, field := range a.header {
		j.w.Header().Set(field[0], field[1])
	}
	switch j.fault {
	case FaultStallHead:
		return j.stall()
	case FaultMalformedHead, FaultBothLengths, FaultFlood1xx, FaultEndlessLine:
		return j.writeRaw(a)
	}
	if a.streamed {
		return j.stream(a)
	}
	return j.writeWhole(a)
}

// stall writes nothing until the client leaves.
func (j *job) stall() error {
	<-j.ctx.Done()
	return context.Cause(j.ctx)
}

func (j *job) writeWhole(a *answer) error {
	switch j.fault {
	case FaultStallStream, FaultCutAtChunk, FaultCutInChunk, FaultErrorThenCut, FaultCutUnframed:
		return j.stream(halved(a))
	}
	if err := j.clock.until(j.ctx, a.tokens); err != nil {
		return err
	}
	j.countTokens(a.tokens)
	if j.fault == FaultErrorThenDone {
		j.ticket.leave(outcomeFaulted)
		j.fail(engineFailed())
		return nil
	}
	if a.big {
		return j.writeBig(a)
	}
	body := a.whole()
	declared := len(body)
	if j.fault == FaultShortBody {
		declared += shortBy
	}
	j.head(a.wholeType, declared)
	j.leaveServed()
	return j.last(body, "")
}

// writeBig writes an unstreamed answer that is too big to be held in memory.
func (j *job) writeBig(a *answer) error {
	before, after, _ := bytes.Cut(a.whole(), []byte(bigMark))
	j.head(a.wholeType, len(before)+bigPieces*bigPiece+len(after))
	if err := j.send(before); err != nil {
		return err
	}
	piece := bytes.Repeat([]byte{'x'}, bigPiece)
	for range bigPieces {
		if err := j.send(piece); err != nil {
			return err
		}
	}
	j.leaveServed()
	return j.last(after, "")
}

// countTokens adds generated tokens to the counts of the engine and of the request.
func (j *job) countTokens(tokens int) {
	j.e.tokens.Add(uint64(tokens))
	j.ticket.tokens.Add(int64(tokens))
}

// leaveServed releases the slot when only the last bytes of the answer remain.
func (j *job) leaveServed() {
	if j.fault == FaultShortBody {
		j.ticket.leave(outcomeFaulted)
		return
	}
	j.ticket.leave(outcomeServed)
}

// last sends the last bytes of an answer, and then does what the fault demands. An answer of a streamType is sent in chunks.
func (j *job) last(body []byte, streamType string) error {
	if err := j.send(body); err != nil {
		return err
	}
	switch j.fault {
	case FaultShortBody:
		return errCut
	case FaultCloseIdle:
		return j.closeIdle(streamType != "")
	case FaultAfterEnd:
		switch streamType {
		case "":
		case lineStream:
			return j.send([]byte(lineAfterEnd))
		default:
			return j.send([]byte(afterEnd))
		}
	}
	return nil
}

// head sets the response head. With a negative length, net/http sends chunks.
func (j *job) head(contentType string, length int) {
	h := j.w.Header()
	h.Set("Content-Type", contentType)
	if contentType == eventStream {
		h.Set("Cache-Control", "no-cache")
	}
	if length >= 0 {
		h.Set("Content-Length", strconv.Itoa(length))
	}
}

// send writes b, as one chunk if the answer is chunked.
func (j *job) send(b []byte) error {
	n, err := j.w.Write(b)
	j.e.bytes.Add(uint64(n))
	if err != nil {
		return err
	}
	return j.rc.Flush()
}
