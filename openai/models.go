package openai

import "strconv"

// ModelInfo is a model in the form that clients get.
type ModelInfo struct {
	ID      string
	Created int64 // Unix seconds
	OwnedBy string
}

// AppendModel appends the answer to GET /v1/models/{model}.
func AppendModel(dst []byte, m ModelInfo) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, m.ID)
	dst = append(dst, `,"object":"model","created":`...)
	dst = strconv.AppendInt(dst, m.Created, 10)
	dst = append(dst, `,"owned_by":`...)
	dst = appendString(dst, m.OwnedBy)
	return append(dst, '}')
}

// AppendModelList appends the answer to GET /v1/models.
func AppendModelList(dst []byte, models []ModelInfo) []byte {
	dst = append(dst, `{"object":"list","data":[`...)
	for i, m := range models {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendModel(dst, m)
	}
	return append(dst, ']', '}')
}
