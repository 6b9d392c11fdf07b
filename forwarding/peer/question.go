package peer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/transport"
	"colonnade/homes"
	"colonnade/openai"
)

const (
	// askTimeout bounds the time from a question to its answer.
	askTimeout = time.Second
	// maxAnswer bounds an answer to a question, in bytes: the same engines in lists of more than one record.
	maxAnswer = 4 << 20
)

// Question is what one server of a colo asks another about its process.
type Question struct {
	About string // boot id of the process that is asked about, which may have been replaced since
	From  string // boot id of this process
}

var (
	// errLate is the error of an answer that took longer than askTimeout by the clock of this process, which may have been stopped.
	errLate = errors.New("the answer came too late to count")
	// errRefusedInPart is the error of a host of whose addresses not all refuse connections.
	errRefusedInPart = errors.New("not all addresses of the host refuse connections")
	errNotAnswered   = errors.New("it does not answer questions")
	errAnswerTooLong = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
)

// Ask asks another server of the colo what its process owns and holds. The answer counts within a second of the call, by the clock of
// this process. For a server that has no such process any more, see [IsRefused].
func (c *Client) Ask(ctx context.Context, to Server, q Question) (homes.Answer, error) {
	began := time.Now()
	within := cmp.Or(c.askWithin, askTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, within, errLate)
	defer cancel()
	query := url.Values{hop.ParamAbout: {q.About}, hop.ParamFrom: {q.From}, hop.ParamColo: {to.Colo}}
	var answer homes.Answer
	err := c.question(ctx, to, hop.PathOwned+"?"+query.Encode(), func(response *transport.Response) error {
		body, err := readAnswer(response)
		if err != nil {
			return err
		}
		return json.Unmarshal(body, &answer)
	})
	if err == nil && time.Since(began) > within {
		err = errLate
	}
	if IsRefused(err) && !refusedEverywhere(ctx, to.Address) {
		err = errRefusedInPart
	}
	if err != nil {
		return homes.Answer{}, fmt.Errorf("cannot ask %s: %w", to.Node, err)
	}
	return answer, nil
}

// Alive asks a server for a sign of life. Any HTTP response is one, also a refusal. ctx bounds the question.
func (c *Client) Alive(ctx context.Context, to Server) error {
	err := c.question(ctx, to, hop.PathAlive, func(*transport.Response) error { return nil })
	var answered *NoVerdictError
	if err == nil || errors.As(err, &answered) {
		return nil
	}
	return fmt.Errorf("no sign of life of %s: %w", to.Node, err)
}

// Ping asks a server for a sign of life, and returns the round trip to it, of which one of an older version says nothing: then measured
// is false. Unlike with [Client.Alive], a server that rejects this node has not answered. ctx bounds the question.
func (c *Client) Ping(ctx context.Context, to Server) (roundTrip time.Duration, measured bool, err error) {
	a := &Answer{}
	err = c.question(ctx, to, hop.PathAlive, func(response *transport.Response) error {
		a.elapsed = response.Turnaround()
		a.Took, a.HasTook = hop.ParseTook(response.Header(hop.HeaderTook))
		return nil
	})
	var answered *NoVerdictError
	if errors.As(err, &answered) && answered.Status != http.StatusForbidden {
		err = nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("%s does not answer: %w", to.Node, err)
	}
	roundTrip, measured = a.RoundTrip()
	return roundTrip, measured, nil
}

// SessionUsage asks a server what a realtime session has used that this entry has sent there. While the session has not ended, and for a server that
// does not know it or is of an older version, the error is a [*NoVerdictError] with the status 404. ctx bounds the question.
func (c *Client) SessionUsage(ctx context.Context, to Server, requestID string) (used hop.SessionUsage, err error) {
	query := url.Values{hop.ParamRequest: {requestID}}
	err = c.question(ctx, to, hop.PathSessionUsage+"?"+query.Encode(), func(response *transport.Response) error {
		body, err := readAnswer(response)
		if err != nil {
			return err
		}
		return json.Unmarshal(body, &used)
	})
	return used, err
}

// Learned asks another server of the colo what it has learned of a pool, as JSON of at most so many bytes. A server that knows nothing of it, or is of an older version,
// answers with a [*NoVerdictError]. ctx bounds the question.
func (c *Client) Learned(ctx context.Context, to Server, pool string, bytes int) (text []byte, err error) {
	query := url.Values{hop.ParamColo: {to.Colo}, hop.ParamPool: {pool}, hop.ParamBytes: {strconv.Itoa(bytes)}}
	err = c.question(ctx, to, hop.PathLearned+"?"+query.Encode(), func(response *transport.Response) error {
		text, err = readAnswer(response)
		return err
	})
	return text, err
}

// ModelFacts is what engines say about models, by name.
type ModelFacts map[string]openai.ModelFact

// ModelFacts asks a server what engines of its colo say about the fleet's models. A server of an older version answers with a [*NoVerdictError]. ctx
// bounds the question.
func (c *Client) ModelFacts(ctx context.Context, to Server) (facts ModelFacts, err error) {
	err = c.question(ctx, to, hop.PathModelFacts, func(response *transport.Response) error {
		body, err := readAnswer(response)
		if err != nil {
			return err
		}
		return json.Unmarshal(body, &facts)
	})
	return facts, err
}

// IsRefused reports whether the error of a question says that the server's address refuses connections: no process listens there.
func IsRefused(err error) bool {
	var failed *transport.ExchangeError
	return errors.As(err, &failed) && failed.Phase == transport.PhaseConnect && errors.Is(failed.Err, syscall.ECONNREFUSED)
}

// question sends a GET request without a body, and calls read with the response unless that is an error. As in [Client.To], it signs the
// request again for the process that answers.
func (c *Client) question(ctx context.Context, to Server, target string, read func(*transport.Response) error) error {
	to.Boot = usableBoot(to.Boot)
	sequence := c.sequences.to(&to)
	err := c.get(ctx, &to, target, sequence, read)
	if next := c.signAgain(&to, sequence, err); next != nil {
		err = c.get(ctx, &to, target, next, read)
	}
	return err
}

// newQuestion returns the request of a question.
func (c *Client) newQuestion(to *Server, target string, sequence *hop.Sequence) *transport.Request {
	return &transport.Request{
		Target: c.target(to), Method: http.MethodGet, Path: target,
		Sign: func(dst []byte) ([]byte, error) {
			token := c.questionToken(to, target)
			return c.appendSigned(dst, &token, sequence, &hop.Binding{
				Audience: to.Audience(), Method: http.MethodGet, Target: target, Protocol: to.Protocol,
			})
		},
	}
}

// openLink returns the request that opens a link. If the server refuses its token, it is not signed again: a later request opens the link.
func (c *Client) openLink(to Server, sequence *hop.Sequence) *transport.Request {
	return c.newQuestion(&to, hop.PathLink, sequence)
}

// get sends a question once.
func (c *Client) get(ctx context.Context, to *Server, target string, sequence *hop.Sequence, read func(*transport.Response) error) error {
	request := c.newQuestion(to, target, sequence)
	request.Deadline, _ = ctx.Deadline()
	if request.ConnectTimeout = askTimeout; !request.Deadline.IsZero() {
		request.ConnectTimeout = time.Until(request.Deadline)
	}
	response, err := c.Transport.Do(ctx, request, transport.ReadOptions{RequireFraming: true})
	if err != nil {
		return err
	}
	defer response.Close()
	if status := response.HTTPStatus(); status != http.StatusOK && status != http.StatusNoContent {
		return c.noVerdict(response, errNotAnswered)
	}
	return read(response)
}

// questionToken returns the token of a question. A colo server asks for a sign of life as for the requests that it sends on: it signs as the
// last server that was visited.
func (c *Client) questionToken(to *Server, target string) hop.Token {
	t := hop.Token{Source: c.Node}
	if c.Colo != "" && target == hop.PathAlive {
		t.Visited = to.names([]string{hop.NodeName(c.Colo, c.Node)})
	}
	return t
}

// readAnswer returns the body of a response.
func readAnswer(response *transport.Response) ([]byte, error) {
	var body []byte
	for {
		piece, err := response.Next()
		body = append(body, piece...)
		switch {
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, err
		case len(body) > maxAnswer:
			return nil, errAnswerTooLong
		}
	}
}

// refusedEverywhere reports whether each address of a host:port refuses connections. A dialer that tries several reports the failure of
// only one, and the server may listen at another.
func refusedEverywhere(ctx context.Context, address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for _, one := range addresses {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(one.String(), port))
		if err == nil {
			_ = conn.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return false
		}
	}
	return err == nil && len(addresses) > 0
}
