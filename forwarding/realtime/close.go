package realtime

import (
	"errors"
	"net"
	"strconv"
	"strings"

	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/reasons"

	"github.com/gorilla/websocket"
)

// OutcomeRefused is the end of a session whose client broke a rule of ours, or of the protocol.
const OutcomeRefused relay.OutcomeKind = "refused"

// closePlan is how a session ends, and what either end is told of it.
type closePlan struct {
	SessionOutcome
	engineCode, clientCode int
	engineText, clientText string
}

// sameForBoth tells both ends the same.
func sameForBoth(e SessionOutcome, code int, text string) closePlan {
	return closePlan{SessionOutcome: e, engineCode: code, engineText: text, clientCode: code, clientText: text}
}

// planClose decides what an end means: a side's failure, or else the cause.
func planClose(why failure, cause error) closePlan {
	switch {
	case errors.Is(cause, errMaxDuration):
		return sameForBoth(SessionOutcome{Kind: relay.OutcomeTimeout, Reason: reasons.SessionTimeout}, websocket.CloseGoingAway, "session time is over")
	case errors.Is(cause, server.ErrClientGone):
		return planClientGone("")
	case cause != nil:
		return sameForBoth(SessionOutcome{Kind: relay.OutcomeDrained, Reason: reasons.Draining}, websocket.CloseGoingAway, "server is shutting down")
	case why.side == clientSide:
		return planClientClose(why)
	}
	return planEngineClose(why)
}

// planClientClose is an end that the client made.
func planClientClose(why failure) closePlan {
	code, text, said := closeFrame(why)
	switch {
	case said:
		return sameForBoth(SessionOutcome{Kind: relay.OutcomeCompleted, Reason: closeReason(code)}, code, text)
	case errors.Is(why.err, websocket.ErrReadLimit):
		return planClientRefused(reasons.MessageTooBig, websocket.CloseMessageTooBig, "message is too big")
	case errors.Is(why.err, errOverhead):
		return planClientRefused(reasons.TooManyFragments, websocket.ClosePolicyViolation, errOverhead.Error())
	case errors.Is(why.err, errNotUTF8):
		return planClientRefused(reasons.NotUTF8, websocket.CloseInvalidFramePayloadData, errNotUTF8.Error())
	case isProtocolError(why):
		return planClientRefused(reasons.ProtocolError, websocket.CloseProtocolError, "")
	case isTimeout(why.err) && why.writing:
		return planClientGone(reasons.Stalled)
	case isTimeout(why.err):
		return planClientGone(reasons.Silent)
	}
	return planClientGone("")
}

func planClientRefused(reason string, code int, text string) closePlan {
	p := sameForBoth(SessionOutcome{Kind: OutcomeRefused, Reason: reason}, websocket.CloseGoingAway, "")
	p.clientCode, p.clientText = code, text
	return p
}

// planClientGone is a client that is not there any more, or takes nothing. Should it only look so, it is told as much: then
// it is an entry that has to end.
func planClientGone(reason string) closePlan {
	p := sameForBoth(SessionOutcome{Kind: relay.OutcomeClientGone, Reason: reason}, websocket.CloseGoingAway, "")
	if p.clientText = "connection is ending"; reason != "" {
		p.clientCode, p.clientText = websocket.ClosePolicyViolation, "connection is "+reason
	}
	return p
}

// planEngineClose is an end that the engine made.
func planEngineClose(why failure) closePlan {
	code, text, said := closeFrame(why)
	switch {
	case said && (code == websocket.CloseInternalServerErr || code == websocket.CloseServiceRestart):
		return sameForBoth(SessionOutcome{Kind: relay.OutcomeEngineError, Reason: closeReason(code), EngineFault: true}, code, text)
	case said && code == websocket.CloseTryAgainLater:
		return sameForBoth(SessionOutcome{Kind: relay.OutcomeEngineError, Reason: closeReason(code)}, code, text)
	case said: // with what the client did wrong, perhaps
		return sameForBoth(SessionOutcome{Kind: relay.OutcomeCompleted, Reason: closeReason(code)}, code, text)
	case errors.Is(why.err, websocket.ErrReadLimit):
		return planEngineFailed(relay.OutcomeEngineError, reasons.MessageTooBig)
	case errors.Is(why.err, errOverhead):
		return planEngineFailed(relay.OutcomeEngineError, reasons.TooManyFragments)
	case errors.Is(why.err, errNotUTF8):
		p := planEngineFailed(relay.OutcomeEngineError, reasons.NotUTF8)
		p.engineCode, p.engineText = websocket.CloseInvalidFramePayloadData, errNotUTF8.Error()
		return p
	case isProtocolError(why):
		return planEngineFailed(relay.OutcomeEngineError, reasons.ProtocolError)
	case isTimeout(why.err) && why.writing:
		return planEngineFailed(relay.OutcomeTimeout, reasons.Stalled)
	case isTimeout(why.err):
		return planEngineFailed(relay.OutcomeTimeout, reasons.Silent)
	}
	return planEngineFailed(relay.OutcomeEngineError, reasons.Truncated)
}

func planEngineFailed(kind relay.OutcomeKind, reason string) closePlan {
	return sameForBoth(SessionOutcome{Kind: kind, Reason: reason, EngineFault: true}, websocket.CloseInternalServerErr,
		"the inference engine failed")
}

// closeFrame returns what a close frame said, if there was one.
func closeFrame(why failure) (code int, text string, said bool) {
	var frame *websocket.CloseError
	if why.writing || !errors.As(why.err, &frame) || frame.Code == websocket.CloseAbnormalClosure {
		return 0, "", false
	}
	return frame.Code, frame.Text, true
}

// closeReason names a close code in events, unless it says nothing.
func closeReason(code int) string {
	switch code {
	case websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseNoStatusReceived:
		return ""
	}
	return "close_" + strconv.Itoa(code)
}

// isProtocolError tells what gorilla's package found wrong with a frame, for which it has no type.
func isProtocolError(why failure) bool {
	var frame *websocket.CloseError
	return !why.writing && !errors.As(why.err, &frame) && !isTimeout(why.err) && strings.HasPrefix(why.err.Error(), "websocket: ")
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
