package openai

import "strconv"

// AppendError appends the event that reports the failure of a stream to its client, in the form of the API. The stream
// must end with it, without the proper end.
func (s *Stream) AppendError(dst []byte, e *Error, requestID string) []byte {
	if s.isLong {
		// Part of an event has been sent already: end it.
		dst = append(dst, "\n\n"...)
	}
	if s.config.API != Responses {
		dst = append(dst, "data: "...)
		dst = e.AppendJSON(dst, requestID)
		return append(dst, "\n\n"...)
	}
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
	return append(dst, "}\n\n"...)
}
