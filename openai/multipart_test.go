package openai_test

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"strings"
	"testing"

	"colonnade/openai"
)

const formType = "multipart/form-data; boundary=XX"

// formBody returns a form with the boundary XX. A ^ begins a part, its headers and content are separated by a bar.
// Lines end in CRLF.
func formBody(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		headers, content, _ := strings.Cut(p, "|")
		if !strings.Contains(headers, ":") {
			headers = `Content-Disposition: form-data; name="` + headers + `"`
		}
		b.WriteString("--XX\r\n" + headers + "\r\n\r\n" + content + "\r\n")
	}
	return b.String() + "--XX--\r\n"
}

func TestPeekForm(t *testing.T) {
	f := func(contentType, body string, want seen) {
		t.Helper()
		got, err := openai.Peek(openai.Transcriptions, contentType, []byte(body))
		if err != nil || exported(got) != want {
			t.Errorf("%q: %+v, %v", body, got, err)
		}
	}
	file := `Content-Disposition: form-data; name="file"; filename="a ü;name=model.wav"` + "\r\nContent-Type: audio/wav|RIFF\r\n--X\r\n\x00\xff"
	f(formType, formBody("model|m"), seen{Model: "m"})
	f(formType, formBody(file, "model|whisper-1", "stream|true"), seen{Model: "whisper-1", Stream: true})
	f(formType, formBody("stream|False", "timestamp_granularities[]|word", "timestamp_granularities[]|segment", "model|m"), seen{Model: "m"})
	f(formType, formBody("Content-Disposition: form-data; name=model\r\nContent-Type: text/plain; charset=UTF-8\r\nContent-Transfer-Encoding: 8bit|m"), seen{Model: "m"})
	f(formType, formBody("content-disposition:form-data;name=\"model\";|m"), seen{Model: "m"})
	f(formType, strings.TrimSuffix(formBody("model|m"), "\r\n"), seen{Model: "m"})
	f(`Multipart/Form-Data; Boundary="XX"`, formBody("model|a/b"), seen{Model: "a/b"})
	f(formType+"; charset=utf-8", formBody("_charset_|UTF-8", "model|m"), seen{Model: "m"})
	f(formType, formBody("x|--X", "y|XX--\r\n-XX", "z|\r\n--X X", "model|m"), seen{Model: "m"})
	f(formType, formBody(`Content-Disposition: form-data; filename="a"; name="file"|`+strings.Repeat("\r\n--XY", 1<<20), "model|m"), seen{Model: "m"})
	f(formType, formBody("model|m", `Content-Disposition: form-data; filename*=UTF-8''%e2%82%ac; name="file"|x`), seen{Model: "m"})
}

func TestPeekFormRefuses(t *testing.T) {
	f := func(name, contentType, body string) {
		t.Helper()
		got, err := openai.Peek(openai.Transcriptions, contentType, []byte(body))
		if err == nil || err.Number != 40001 && err.Number != 40002 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	good := formBody("model|m")
	for _, contentType := range []string{"multipart/form-data", "multipart/form-data; boundary=", `multipart/form-data; boundary="X X"`,
		"multipart/form-data; boundary=XX; boundary=YY", "multipart/form-data; boundary*=us-ascii''XX", "multipart/form-data; boundary=YY",
		`multipart/form-data; boundary="X\X"`, "multipart/form-data; boundary=" + strings.Repeat("X", 71), "multipart/mixed; boundary=XX",
		"multipart/form-data; boundary=XX, boundary=YY", "multipart/form-data; boundary=XX; charset=utf-16", "multipart/form-data; charset=\"utf-7\"; boundary=XX"} {
		f(contentType, contentType, good)
	}
	for name, body := range map[string]string{
		"no model":             formBody("x|m"),
		"empty":                "",
		"no parts":             "--XX--\r\n",
		"empty model":          formBody("model|"),
		"long model":           formBody("model|" + strings.Repeat("m", 300)),
		"model with newline":   formBody("model|a\r\nb"),
		"model not UTF-8":      formBody("model|a\xff"),
		"text with NUL":        formBody("model|m", "prompt|a\x00b"),
		"text not UTF-8":       formBody("model|m", "prompt|\xc0\x80"),
		"two models":           formBody("model|a", "model|b"),
		"Model":                formBody("model|a", "Model|b"),
		"MODEL alone":          formBody("MODEL|b"),
		"model[]":              formBody("model|a", "model[]|b"),
		"model[0]":             formBody("model|a", "MODEL[0]|b"),
		"escaped name":         formBody("model|a", `Content-Disposition: form-data; name="mod\el"|b`),
		"encoded name":         formBody("model|a", `Content-Disposition: form-data; name="mod%65l"|b`),
		"extended name":        formBody("model|a", `Content-Disposition: form-data; name*=utf-8''model|b`),
		"name with space":      formBody("model|a", `Content-Disposition: form-data; name=" model"|b`),
		"two names":            formBody("model|a", `Content-Disposition: form-data; name="x"; name="model"|b`),
		"quote in file name":   formBody("model|a", `Content-Disposition: form-data; filename="a\"; name="model"; x="|b`),
		"name in file name":    formBody("model|a", `Content-Disposition: form-data; name="x"; filename="a"; name="model"|b`),
		"model is a file":      formBody(`Content-Disposition: form-data; name="model"; filename="m"|m`),
		"model in UTF-16":      formBody("Content-Disposition: form-data; name=\"model\"\r\nContent-Type: text/plain; charset=utf-16|m"),
		"model is JSON":        formBody("Content-Disposition: form-data; name=\"model\"\r\nContent-Type: application/json|\"m\""),
		"quoted-printable":     formBody("Content-Disposition: form-data; name=\"model\"\r\nContent-Transfer-Encoding: quoted-printable|=6d"),
		"base64":               formBody("model|a", "Content-Disposition: form-data; name=\"x\"\r\nContent-Transfer-Encoding: base64|bQ=="),
		"two dispositions":     formBody("Content-Disposition: form-data; name=\"model\"\r\nContent-Disposition: form-data; name=\"x\"|m"),
		"no disposition":       formBody("model|a", "Content-Type: text/plain|m"),
		"attachment":           formBody("model|a", "Content-Disposition: attachment; name=\"model\"|m"),
		"unknown parameter":    formBody("model|a", "Content-Disposition: form-data; name=\"x\"; y=z|m"),
		"folded header":        formBody("model|a", "Content-Disposition: form-data;\r\n name=\"model\"|b"),
		"space before colon":   formBody("model|a", "Content-Disposition : form-data; name=\"model\"|b"),
		"stream twice":         formBody("model|a", "stream|true", "stream|false"),
		"stream 1":             formBody("model|a", "stream|1"),
		"preamble":             "x\r\n" + good,
		"leading CRLF":         "\r\n" + good,
		"epilogue":             good + "x",
		"epilogue with a part": good + good,
		"no end":               strings.TrimSuffix(good, "--XX--\r\n"),
		"half an end":          strings.TrimSuffix(good, "-\r\n"),
		"LF lines":             strings.ReplaceAll(good, "\r\n", "\n"),
		"LF before boundary":   formBody("model|m", "x|a\n--XX\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nb"),
		"boundary in content":  formBody("model|m", "x|a--XXb"),
		"boundary in a line":   formBody("model|m", "x|a--XX\r\nContent-Disposition: form-data; name=\"y\"\r\n\r\nb"),
		"LF boundary":          formBody("model|m", "x|a\n--XX\r\nContent-Disposition: form-data; name=\"y\"\r\n\r\nb"),
		"nested":               formBody("model|a", "Content-Disposition: form-data; name=\"x\"\r\nContent-Type: multipart/mixed; boundary=YY|--YY\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nb\r\n--YY--"),
		"nested message":       formBody("model|a", "Content-Disposition: form-data; name=\"x\"; filename=\"y\"\r\nContent-Type: Message/rfc822|From: b"),
		"compressed part":      formBody("model|a", "Content-Disposition: form-data; name=\"x\"; filename=\"y\"\r\nContent-Encoding: gzip|b"),
		"charset of all":       formBody("_charset_|utf-16", "model|a"),
		"charset of the rest":  formBody("model|a", "_Charset_|iso-8859-1"),
		"charset of the model": formBody("Content-Disposition: form-data; name=\"model\"\r\nContent-Type: text/plain; charset=ebcdic|a"),
		"encoded word":         formBody("model|a", "Content-Disposition: form-data; name=\"=?utf-8?q?model?=\"|b"),
		"percents in a name":   formBody("model|a", "Content-Disposition: form-data; name*0=\"mod\"; name*1=\"el\"|b"),
		"two other names":      formBody("model|a", `Content-Disposition: form-data; name="x"; name="y"|b`),
		"backslash":            formBody("model|a", `Content-Disposition: form-data; filename="a\"; name="x"|b`),
		"boundary with tail":   formBody("model|m", "x|a\r\n--XXb"),
		"boundary with space":  formBody("model|m", "x|a\r\n--XX \r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nb"),
		"boundary in a header": formBody("model|m", "Content-Disposition: form-data; name=\"x\"\r\n--XX\r\nContent-Type: text/plain|b"),
		"long headers":         formBody("model|m", "X-Long: "+strings.Repeat("x", 5000)+"\r\nContent-Disposition: form-data; name=\"x\"|b"),
		"many parts":           formBody(append([]string{"model|m"}, slicesRepeat("x|1", 300)...)...),
	} {
		f(name, formType, body)
	}
	if _, err := openai.Peek(openai.Chat, formType, []byte(good)); err == nil {
		t.Error("a form is accepted for chat")
	}
}

func slicesRepeat(s string, n int) []string {
	return strings.Split(strings.Repeat(s+",", n-1)+s, ",")
}

func TestSpliceForm(t *testing.T) {
	body := []byte(formBody("x|1", "model|whisper-1", "stream|true"))
	peeked, err := openai.Peek(openai.Images, formType, body)
	if err != nil {
		t.Fatal(err)
	}
	got := string(peeked.Splice(nil, body, openai.Edit{Model: "a/b", AskUsage: true}))
	if want := formBody("x|1", "model|a/b", "stream|true"); got != want || peeked.CanAskUsage() {
		t.Errorf("%q", got)
	}
	for model, changes := range map[string]bool{"": false, "whisper-1": false, "whisper-2": true, "a": true} {
		if got := peeked.Changes(body, openai.Edit{Model: model, AskUsage: true}); got != changes {
			t.Errorf("the model %q changes the form: %v", model, got)
		}
	}
}

// A form that Peek accepts is accepted by mime/multipart and read alike, also after the model has been replaced.
func FuzzPeekForm(f *testing.F) {
	f.Add("XX", []byte(formBody("model|m", "x|y")))
	f.Add("XX", []byte(formBody(`Content-Disposition: form-data; name="file"; filename="a.wav"`+"\r\nContent-Type: audio/wav|RIFF", "stream|true", "model|m")))
	f.Add("-X-", []byte(strings.ReplaceAll(formBody("model|m", "x|\r\n--X"), "XX", "-X-")))
	f.Add("a", []byte("--a\r\nContent-Disposition: form-data; name=model\r\n\r\nm\r\n--a--"))
	f.Fuzz(func(t *testing.T, boundary string, body []byte) {
		contentType := `multipart/form-data; boundary="` + boundary + `"`
		peeked, err := openai.Peek(openai.Transcriptions, contentType, body)
		if err != nil {
			return
		}
		before := readForm(t, contentType, body)
		if models := before["model"]; len(models) != 1 || models[0] != peeked.Model {
			t.Fatalf("%q: %q but %q", body, peeked.Model, models)
		}
		after := readForm(t, contentType, peeked.Splice(nil, body, openai.Edit{Model: "new/model"}))
		before["model"][0] = "new/model"
		if !equalForms(before, after) {
			t.Fatalf("%q: %q became %q", body, before, after)
		}
	})
}

// readForm reads all parts by name; names are folded, as some engines read them.
func readForm(t *testing.T, contentType string, body []byte) map[string][]string {
	t.Helper()
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		t.Fatalf("%q: %v", contentType, err)
	}
	r := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	form := map[string][]string{}
	for {
		part, err := r.NextPart()
		if err == io.EOF {
			return form
		}
		if err != nil {
			t.Fatalf("mime/multipart refuses %q: %v", body, err)
		}
		content, err := io.ReadAll(part)
		if err != nil {
			t.Fatalf("mime/multipart refuses %q: %v", body, err)
		}
		name := strings.ToLower(part.FormName())
		if name == "" {
			t.Fatalf("%q: a part without a name", body)
		}
		form[name] = append(form[name], string(content))
	}
}

func equalForms(a, b map[string][]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name, values := range a {
		if strings.Join(values, "\x00") != strings.Join(b[name], "\x00") {
			return false
		}
	}
	return true
}
