package openai

import (
	"bytes"

	"colonnade/internal/ascii"
)

const (
	// maxPath is the highest length of a path on Linux.
	maxPath = 4 << 10
	// jpegBase64 is the beginning of a JPEG image in base64.
	jpegBase64 = "/9j/"
)

// mayHoldPath tells most strings apart from those for which isFilePath must be asked, by the name of the member passed last.
func (s *scan) mayHoldPath() bool {
	switch n := s.name.to - s.name.from; n {
	case len("url"), len("image"), len("image_url"): // the names for audio and video are as long
		return true
	default:
		return n >= len(`\u0075rl`) && bytes.IndexByte(s.b[s.name.from:s.name.to], '\\') >= 0
	}
}

// isFilePath reports whether a string, as written between its quotes, is the path of a file in the place of an image, audio or video.
func (s *scan) isFilePath(raw []byte) bool {
	if len(raw) > 6*maxPath {
		return false
	}
	var buf [maxKey]byte
	if !isPathName(s.passedName(buf[:0])) {
		return false
	}
	if bytes.IndexByte(raw, '\\') >= 0 {
		raw, _ = appendUnescaped(nil, raw)
	}
	return isPath(raw)
}

// namesFile reports whether a form's field, with a name in lower case, is the URL or the path of a file.
func namesFile(name string, text []byte) bool {
	unescaped, _, _ := bytes.Cut(text, []byte(`\`)) // no scheme has one
	return isMediaName([]byte(name)) && hasFileScheme(unescaped) || isPathName([]byte(name)) && isPath(text)
}

// isPathName reports whether an engine opens what a member with this name holds, also without a scheme.
func isPathName(name []byte) bool {
	switch string(name) {
	case "url", "image", "audio", "video", "image_url", "audio_url", "video_url":
		return true
	}
	return false
}

// isPath reports whether SGLang may open text as a path. It does so with a string that is neither a URL of HTTP nor a data: URL if that
// ends like the name of an image, or if there is a file of that name. Any other string is base64 to it, so a path is known by what
// base64 does not have. The schemes gs: and s3: are for proxies that read buckets.
func isPath(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	scheme, _, _ := bytes.Cut(text[:min(len(text), len("https:"))], []byte(":"))
	for _, remote := range []string{"http", "https", "data", "gs", "s3"} {
		if ascii.EqualFold(scheme, remote) && len(text) > len(scheme) {
			return false
		}
	}
	if bytes.HasPrefix(text, []byte("/")) {
		return !bytes.HasPrefix(text, []byte(jpegBase64)) || !isBase64(text)
	}
	return !isBase64(text) && (bytes.IndexByte(text, '/') >= 0 || hasImageSuffix(text))
}

// isBase64 reports whether text has only characters of base64, and line ends.
func isBase64(text []byte) bool {
	for _, c := range text {
		if !ascii.IsAlphanumeric(c) && bytes.IndexByte([]byte("+/=\r\n"), c) < 0 {
			return false
		}
	}
	return true
}

func hasImageSuffix(text []byte) bool {
	dot := bytes.LastIndexByte(text, '.')
	for _, suffix := range []string{".png", ".jpg", ".jpeg", ".webp", ".gif"} {
		if dot >= 0 && ascii.EqualFold(text[dot:], suffix) {
			return true
		}
	}
	return false
}
