package openai

import "strconv"

// AppendError appends the event that reports the failure of a stream to its client, in the form of the client's route. The
// stream must end with it, without the proper end.
func (s *Stream) AppendError(dst []byte, e *Error, requestID string) []byte {
	if s.config.Framing == JSONLines {
		if s.isLong {
			dst = append(dst, '\n') // ends the line of which a part has been sent already
		}
		return append(e.AppendBody(dst, s.config.Dialect, requestID), '\n')
	}
	if s.isLong {
		// Part of an event has been sent already: end it.
		dst = append(dst, "\n\n"...)
	}
	switch {
	case s.config.API == Responses:
		dst = s.appendResponsesError(dst, e, requestID)
	case s.config.Dialect == DialectAnthropic: // whose SDKs look at the event's name
		dst = e.AppendBody(append(dst, "event: error\ndata: "...), DialectAnthropic, requestID)
	default:
		dst = e.AppendBody(append(dst, "data: "...), s.config.Dialect, requestID)
	}
	return append(dst, "\n\n"...)
}

func (s *Stream) appendResponsesError(dst []byte, e *Error, requestID string) []byte {
	dst = append(dst, "event: error\ndata: {\"type\":\"error\",\"sequence_number\":"...)
	dst = strconv.AppendInt(dst, int64(s.seen.sequence), 10)
	dst = append(dst, `,"code":`...)
	dst = appendString(dst, e.Code)
	dst = append(dst, `,"message":`...)
	dst = appendString(dst, e.Message)
	dst = append(dst, `,"param":`...)
	dst = appendStringOrNull(dst, e.Param)
	dst = append(dst, `,"error":`...)
	dst = e.appendObject(dst, requestID)
	return append(dst, '}')
}
