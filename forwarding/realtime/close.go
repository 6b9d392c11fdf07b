package realtime

import (
	"errors"
	"net"
	"strconv"
	"strings"

	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"

	"github.com/gorilla/websocket"
)

// OutcomeRefused is the end of a session whose client broke a rule of ours, or of the protocol.
const OutcomeRefused relay.OutcomeKind = "refused"

// parting is how a session ends, and what either end is told of it.
type parting struct {
	SessionOutcome
	engineCode, clientCode int
	engineText, clientText string
}

// closing tells both ends the same.
func closing(e SessionOutcome, code int, text string) parting {
	return parting{SessionOutcome: e, engineCode: code, engineText: text, clientCode: code, clientText: text}
}

// part decides what an end means: a side's failure, or else the cause.
func part(why failure, cause error) parting {
	switch {
	case errors.Is(cause, errLifeOver):
		return closing(SessionOutcome{Kind: relay.OutcomeTimeout, Reason: "websocket"}, websocket.CloseGoingAway, "session time is over")
	case errors.Is(cause, server.ErrClientGone):
		return clientLeft("")
	case cause != nil:
		return closing(SessionOutcome{Kind: relay.OutcomeDrained, Reason: "draining"}, websocket.CloseGoingAway, "server is shutting down")
	case why.side == clientSide:
		return partOfClient(why)
	}
	return partOfEngine(why)
}

// partOfClient is an end that the client made.
func partOfClient(why failure) parting {
	code, text, said := saidGoodbye(why)
	switch {
	case said:
		return closing(SessionOutcome{Kind: relay.OutcomeCompleted, Reason: unusual(code)}, code, text)
	case errors.Is(why.err, websocket.ErrReadLimit):
		return clientRefused("message_too_big", websocket.CloseMessageTooBig, "message is too big")
	case errors.Is(why.err, errOverhead):
		return clientRefused("too_many_fragments", websocket.ClosePolicyViolation, errOverhead.Error())
	case errors.Is(why.err, errNotText):
		return clientRefused("not_utf8", websocket.CloseInvalidFramePayloadData, errNotText.Error())
	case isProtocolError(why):
		return clientRefused("protocol_error", websocket.CloseProtocolError, "")
	case isNetTimeout(why.err) && why.writing:
		return clientLeft("stalled")
	case isNetTimeout(why.err):
		return clientLeft("silent")
	}
	return clientLeft("")
}

func clientRefused(reason string, code int, text string) parting {
	p := closing(SessionOutcome{Kind: OutcomeRefused, Reason: reason}, websocket.CloseGoingAway, "")
	p.clientCode, p.clientText = code, text
	return p
}

// clientLeft is a client that is not there any more, or takes nothing. Should it only look so, it is told as much: then
// it is an entry that has to end.
func clientLeft(reason string) parting {
	p := closing(SessionOutcome{Kind: relay.OutcomeClientGone, Reason: reason}, websocket.CloseGoingAway, "")
	if p.clientText = "connection is ending"; reason != "" {
		p.clientCode, p.clientText = websocket.ClosePolicyViolation, "connection is "+reason
	}
	return p
}

// partOfEngine is an end that the engine made.
func partOfEngine(why failure) parting {
	code, text, said := saidGoodbye(why)
	switch {
	case said && (code == websocket.CloseInternalServerErr || code == websocket.CloseServiceRestart):
		return closing(SessionOutcome{Kind: relay.OutcomeEngineError, Reason: unusual(code), EngineFault: true}, code, text)
	case said && code == websocket.CloseTryAgainLater:
		return closing(SessionOutcome{Kind: relay.OutcomeEngineError, Reason: unusual(code)}, code, text)
	case said: // with what the client did wrong, perhaps
		return closing(SessionOutcome{Kind: relay.OutcomeCompleted, Reason: unusual(code)}, code, text)
	case errors.Is(why.err, websocket.ErrReadLimit):
		return engineFailed(relay.OutcomeEngineError, "message_too_big")
	case errors.Is(why.err, errOverhead):
		return engineFailed(relay.OutcomeEngineError, "too_many_fragments")
	case errors.Is(why.err, errNotText):
		p := engineFailed(relay.OutcomeEngineError, "not_utf8")
		p.engineCode, p.engineText = websocket.CloseInvalidFramePayloadData, errNotText.Error()
		return p
	case isProtocolError(why):
		return engineFailed(relay.OutcomeEngineError, "protocol_error")
	case isNetTimeout(why.err) && why.writing:
		return engineFailed(relay.OutcomeTimeout, "stalled")
	case isNetTimeout(why.err):
		return engineFailed(relay.OutcomeTimeout, "silent")
	}
	return engineFailed(relay.OutcomeEngineError, "cut_short")
}

func engineFailed(kind relay.OutcomeKind, reason string) parting {
	return closing(SessionOutcome{Kind: kind, Reason: reason, EngineFault: true}, websocket.CloseInternalServerErr,
		"the inference engine failed")
}

// saidGoodbye returns what a close frame said, if there was one.
func saidGoodbye(why failure) (code int, text string, said bool) {
	var frame *websocket.CloseError
	if why.writing || !errors.As(why.err, &frame) || frame.Code == websocket.CloseAbnormalClosure {
		return 0, "", false
	}
	return frame.Code, frame.Text, true
}

// unusual names a close code in events, unless it says nothing.
func unusual(code int) string {
	switch code {
	case websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseNoStatusReceived:
		return ""
	}
	return "close_" + strconv.Itoa(code)
}

// isProtocolError tells what gorilla's package found wrong with a frame, for which it has no type.
func isProtocolError(why failure) bool {
	var frame *websocket.CloseError
	return !why.writing && !errors.As(why.err, &frame) && !isNetTimeout(why.err) && strings.HasPrefix(why.err.Error(), "websocket: ")
}

func isNetTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
