package server

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/openai"
)

// binaryExchange is what an [Exchange] with binary heads reads and writes.
//
//	stream of a link → serveStream ─ binary head ─→ serveExchange: HandleExchange → the answer in one write, or a body that is written as it comes
//	                        └─────── text ────────→ fasthttp's ServeConn
//
// An exchange that is suspended leaves its worker, and another one goes on with it:
//
//	HandleExchange → Suspend → start … wake → doTask → run: goOn → the answer
type binaryExchange struct {
	conn   *serverConn
	memory *exchangeMemory
	input  []byte // what has arrived: the head, and behind it the body as far as it was read
	size   int    // of the head
	output []byte // the head of the answer, which is not ended yet
	status int
	whole  []byte // the body of the answer
	length int64  // of a body that is written as it comes; -1 = in chunks
	write  func(io.Writer) error
	start  func(wake func()) // begins the wait of a suspended exchange; nil = not suspended
	goOn   func()            // is called after the wait; nil = call the handler
	failed bool              // the handler has panicked
}

// exchangeMemory is memory that one exchange uses after another. endExchange takes it back once the handler has returned and a whole answer was written.
type exchangeMemory struct {
	exchange      Exchange
	conn          serverConn
	input, output []byte
	body          []byte // of the answer: see Exchange.KeepBody
}

// maxExchangeMemory is the greatest input, and the greatest output, that are kept for another exchange, in bytes.
const maxExchangeMemory = 16 << 10

// doTask serves a new stream, or goes on with a suspended exchange.
func (s *Server) doTask(t task) {
	if t.suspended != nil {
		s.run(t.suspended)
		return
	}
	s.serveStream(t.stream)
}

// serveStream serves the exchange of a stream, and closes it.
func (s *Server) serveStream(of linkedStream) {
	_ = of.SetReadDeadline(time.Now().Add(readTimeout))
	first, arrived, err := of.Peek()
	if err != nil {
		_ = of.Close()
		return
	}
	if !hop.IsBinaryHead(first) || s.handleExchange == nil {
		_ = s.http.ServeConn(newStreamConn(of))
		return
	}
	s.serveExchange(of, arrived)
}

// serveExchange serves an exchange of which so many bytes have arrived, usually all of the request.
func (s *Server) serveExchange(of linkedStream, arrived int) {
	memory := s.exchanges.Get().(*exchangeMemory)
	memory.conn.carry(of)
	x := &memory.exchange
	*x = Exchange{}
	x.wire.conn, x.wire.memory = &memory.conn, memory
	x.wire.input, x.wire.output = slices.Grow(memory.input, min(arrived, maxExchangeMemory)), memory.output
	malformed, err := x.readHead()
	if err != nil {
		s.logger.Debug("cannot read a binary head", "from", of.RemoteAddr().String(), "error", err)
		TruncateOnClose(x.wire.conn)
		s.endExchange(&x.wire)
		return
	}
	x.wire.output = hop.BeginAnswerHead(x.wire.output)
	if malformed != nil {
		x.WriteError(openai.InvalidRequest("", "the head of the request cannot be read: %v", malformed), "")
		s.writeAnswer(&x.wire)
		return
	}
	s.run(x)
}

// run calls the handler, or goOn after a wait, and writes the answer.
func (s *Server) run(x *Exchange) {
	s.callExchange(x)
	if start := x.wire.start; start != nil {
		x.wire.start = nil
		start(func() { s.links.workers.give(task{suspended: x}) }) // from here on, x may belong to another worker
		return
	}
	if x.wire.write != nil {
		s.links.workers.running.Go(func() { s.writeAnswer(&x.wire) }) // a body may take minutes, and another goroutine has a smaller stack
		return
	}
	s.writeAnswer(&x.wire)
}

// endExchange closes the stream, and takes back the memory unless the body was written as it came, the handler has failed, or the memory is large.
func (s *Server) endExchange(x *binaryExchange) {
	_ = x.conn.Close()
	if x.write == nil && !x.failed && cap(x.input) <= maxExchangeMemory && cap(x.output) <= maxExchangeMemory {
		x.memory.input, x.memory.output = x.input[:0], x.output[:0]
		s.exchanges.Put(x.memory)
	}
}

// callExchange calls HandleExchange, or goOn after a wait. Both recover from their own panics; a panic that escapes them is answered here.
func (s *Server) callExchange(x *Exchange) {
	defer func() {
		if LogPanic(s.logger, "exchange", recover()) {
			s.abandonBody(&x.wire)
			x.wire.output, x.wire.write, x.wire.start, x.wire.failed = hop.BeginAnswerHead(x.wire.output[:0]), nil, nil, true
			x.WriteError(openai.Internal(), "")
		}
	}()
	if goOn := x.wire.goOn; goOn != nil {
		x.wire.goOn = nil
		goOn()
		return
	}
	s.handleExchange(x)
}

// abandonBody has a body that is not written release what it holds.
func (s *Server) abandonBody(x *binaryExchange) {
	defer func() { LogPanic(s.logger, "exchange", recover()) }()
	if x.write != nil {
		_ = x.write(closedWriter{})
	}
}

// writeAnswer writes the answer to its end.
func (s *Server) writeAnswer(x *binaryExchange) {
	defer s.endExchange(x)
	if x.write == nil {
		x.length = int64(len(x.whole))
	}
	err := hop.EndAnswerHead(x.output, x.status, x.length)
	switch {
	case err != nil:
		s.abandonBody(x)
	case x.write != nil:
		body := &stream{write: x.write, head: bytes.Clone(x.output), length: x.length, last: true}
		x.output, x.memory.output = nil, nil // a stream may last for minutes
		s.writeStream(x.conn, body)
		return
	default:
		x.output = append(x.output, x.whole...)
		err = x.conn.linked.WriteLast(x.output)
	}
	if err != nil {
		s.logger.Debug("answer was not written", "error", err)
		TruncateOnClose(x.conn)
	}
}

// readHead reads the head, and what has arrived behind it. A head that is malformed is no error of the stream.
func (x *Exchange) readHead() (malformed, err error) {
	w := &x.wire
	if err := w.fill(hop.BinaryHeadStart); err != nil {
		return nil, err
	}
	size, malformed := hop.BinaryHeadSize(w.input)
	if malformed != nil {
		return malformed, nil
	}
	if err := w.fill(size); err != nil {
		return nil, err
	}
	x.Arrived, w.size = time.Now(), size
	x.binary, malformed = hop.ParseRequestHead(w.input[:size])
	return malformed, nil
}

// fill reads until n bytes have arrived.
func (x *binaryExchange) fill(n int) error {
	for len(x.input) < n {
		x.input = slices.Grow(x.input, n-len(x.input))
		read, err := x.conn.linked.Read(x.input[len(x.input):cap(x.input)])
		x.input = x.input[:len(x.input)+read]
		if err != nil && len(x.input) < n {
			return unexpectedEnd(err)
		}
	}
	return nil
}

func unexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (x *binaryExchange) readBody(r *Request, length, limit int, account string) ([]byte, error) {
	switch {
	case length > limit:
		return nil, errBodyTooLarge
	case length <= maxPrefetch:
		end := x.size + length
		if err := x.fill(end); err != nil {
			return nil, err
		}
		return x.input[x.size:end:end], nil
	}
	arrived := io.MultiReader(bytes.NewReader(x.input[x.size:]), x.conn.linked)
	return r.readLongBody(x.conn, io.LimitReader(arrived, int64(length)), length, limit, account)
}
