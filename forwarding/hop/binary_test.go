package hop_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/internal/testkit"
)

// newer returns a binding of testTarget for a server that reads tokens in binary.
func newer() hop.Binding {
	to := testTarget()
	to.Protocol = hop.BinaryTokenProtocol
	return to
}

// fields calls f with each field of a struct and of the structs in it, which it makes one each of.
func fields(v reflect.Value, path string, f func(path string, field reflect.Value)) {
	for i := range v.NumField() {
		field, name := v.Field(i), path+"."+v.Type().Field(i).Name
		switch {
		case field.Kind() == reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
			fields(field.Elem(), name, f)
		case field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct:
			field.Set(reflect.MakeSlice(field.Type(), 2, 2))
			fields(field.Index(0), name+"[0]", f)
			fields(field.Index(1), name+"[1]", f)
		default:
			f(name, field)
		}
	}
}

// fill sets a field to a value of its own.
func fill(t *testing.T, path string, field reflect.Value, random *rand.Rand) {
	t.Helper()
	texts := func() string { return strings.Repeat("ä/x", 1+random.IntN(60)) + path }
	switch value := field.Addr().Interface().(type) {
	case *hop.Millis:
		*value = hop.Millis(time.Duration(1+random.Int64N(86_400_000)) * time.Millisecond)
		if random.IntN(2) == 0 {
			*value = -*value
		}
	case *[]string:
		*value = []string{texts(), "", texts()}
	case *[]byte:
		*value = []byte(strings.Repeat("s", 31) + string(rune('a'+random.IntN(26))))
	default:
		switch field.Kind() {
		case reflect.String:
			field.SetString(texts())
		case reflect.Int, reflect.Int64:
			field.SetInt(int64(random.Uint64()>>random.IntN(64)) | 1)
		case reflect.Uint64:
			field.SetUint(random.Uint64()>>random.IntN(64) | 1)
		case reflect.Float64:
			field.SetFloat(random.NormFloat64())
		case reflect.Bool:
			field.SetBool(true)
		default:
			t.Fatalf("%s is a %s: the layout of tokens has none", path, field.Type())
		}
	}
}

// Each field of a token, also of one that is added later, is read as it was written, with all others and alone.
func TestEveryFieldIsInTheLayout(t *testing.T) {
	random := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	check := func(what string, want hop.Token) {
		t.Helper()
		payload, err := hop.AppendPayload(nil, &want)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		got, err := hop.ParsePayload(string(payload))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v\nis read as %+v, %v", what, want, got, err)
		}
		n := random.IntN(len(payload))
		if _, err := hop.ParsePayload(string(payload[:n])); err == nil {
			t.Errorf("%s: %d of %d bytes are a token", what, n, len(payload))
		}
	}
	var names []string
	fields(reflect.ValueOf(&hop.Token{}).Elem(), "", func(path string, _ reflect.Value) { names = append(names, path) })
	for _, name := range names {
		var one, all hop.Token
		fields(reflect.ValueOf(&one).Elem(), "", func(path string, field reflect.Value) {
			if path == name || strings.HasSuffix(path, ".Sum") {
				fill(t, path, field, random)
			}
		})
		fields(reflect.ValueOf(&all).Elem(), "", func(path string, field reflect.Value) { fill(t, path, field, random) })
		check(name, one)
		check("all", all)
	}
	if len(names) < 45 {
		t.Errorf("only %d fields were found", len(names))
	}
	check("none", hop.Token{})
}

// A receiver learns the same from a token in binary as from one in JSON.
func TestBinaryTokenIsLikeJSON(t *testing.T) {
	keys := hop.RandomKeys()
	for range 50 {
		h := onwardToken("fra/fra-1")
		h.Headers, h.Unanswered, h.Key, h.ReturnProbability = &hop.MoreHeaders{Names: []string{"X-Tenant", "x-none"}}, []string{"a", "b"}, "k", 0.3
		h.Rejoin, h.WantsProgress, h.HopsLeft, h.Revision = true, true, -1, 1<<40
		both := hop.NewSequence("boot")
		var got [2]hop.Token
		for i, protocol := range []int{hop.BinaryTokenProtocol - 1, hop.BinaryTokenProtocol} {
			to := toAms()
			to.Protocol = protocol
			token, err := keys.Sign(&h, both, &to, testTime)
			if err != nil || !strings.HasPrefix(token, []string{"v2.", "v3."}[i]) {
				t.Fatalf("to protocol %d: %.20q, %v", protocol, token, err)
			}
			if got[i], err = verify(keys, token, toAms(), testTime); err != nil {
				t.Fatal(err)
			}
			got[i].Number = 0
		}
		if !reflect.DeepEqual(got[0], got[1]) {
			t.Fatalf("in JSON  %+v\nin binary %+v", got[0], got[1])
		}
	}
}

// A token in binary is bound to its request as one in JSON is, and no older name of a server is accepted in it.
func TestBinaryTokenIsBoundToItsTarget(t *testing.T) {
	keys := hop.RandomKeys()
	token := mustSign(t, keys, withHeaders(), newer())
	if _, err := verify(keys, token, newer(), testTime); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*hop.Binding){
		"server":       func(to *hop.Binding) { to.Audience = "fra-1" },
		"older server": func(to *hop.Binding) { to.Audience, to.OldAudience = "ams/ams-1", "ams-1" },
		"method":       func(to *hop.Binding) { to.Method = "PUT" },
		"query":        func(to *hop.Binding) { to.Target = "/v1/chat/completions?a=c" },
		"header": func(to *hop.Binding) {
			to.AppendHeader = headerLines("content-type", "application/json", "accept", "text/html", "x-tenant", "a")
		},
		"forwarded header": func(to *hop.Binding) {
			to.AppendHeader = headerLines("content-type", "application/json", "accept", "*/*", "x-tenant", "b")
		},
		"body": func(to *hop.Binding) { to.Body = []byte(`{"model":"n"}`) },
	} {
		to := newer()
		change(&to)
		if _, err := verify(keys, token, to, testTime); !errors.Is(err, hop.ErrBadToken) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"another key":     second(verify(hop.RandomKeys(), token, newer(), testTime)),
		"as JSON":         second(verify(keys, "v2"+token[2:], newer(), testTime)),
		"after ten min":   second(verify(keys, token, newer(), testTime.Add(11*time.Minute))),
		"JSON as binary":  second(verify(keys, "v3"+mustSign(t, keys, withHeaders(), testTarget())[2:], newer(), testTime)),
		"only a digest":   second(verify(keys, "v3."+strings.Repeat("A", 43), newer(), testTime)),
		"no content":      second(verify(keys, "v3.", newer(), testTime)),
		"too long":        second(verify(keys, "v3."+strings.Repeat("A", 9<<10), newer(), testTime)),
		"with a line end": second(verify(keys, token[:90]+"\n"+token[90:], newer(), testTime)),
		"with padding":    second(verify(keys, token+"=", newer(), testTime)),
	} {
		if !errors.Is(err, hop.ErrBadToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	older, latest := hop.RandomKeys(), hop.RandomKeys()
	if _, err := verify(latest.With(older), mustSign(t, older, testHop(), newer()), newer(), testTime); err != nil {
		t.Errorf("a token of the second key: %v", err)
	}
}

// A change of any character makes a token invalid, also where it changes only bits that belong to no byte.
func TestAlteredBinaryTokens(t *testing.T) {
	keys := hop.RandomKeys()
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for extra := range 3 { // all lengths of the last group
		h := testHop()
		h.Account = strings.Repeat("a", 1+extra)
		token := mustSign(t, keys, h, newer())
		for i := range len(token) {
			for j := range len(alphabet) {
				if b := []byte(token); b[i] != alphabet[j] && (j%16 == i%16 || i > len(token)-3) {
					b[i] = alphabet[j]
					if got, err := verify(keys, string(b), newer(), testTime); err == nil {
						t.Fatalf("byte %d altered to %c, and yet verified: %+v", i, b[i], got)
					}
				}
			}
		}
	}
}

// Stops that do not fit are left out, also in binary.
func TestStopsThatDoNotFitInBinary(t *testing.T) {
	keys := hop.RandomKeys()
	for _, c := range []struct{ room, want int }{{0, 16}, {1000, 10}, {380, 1}, {1, 0}} {
		h, to := onwardToken("fra/fra-1"), toAms()
		h.Onward, to.MaxToken, to.Protocol = stops(16), c.room, hop.BinaryTokenProtocol
		token := mustSign(t, keys, h, to)
		got, err := verify(keys, token, toAms(), testTime)
		if err != nil || len(got.Onward) != c.want || c.want > 0 && (!reflect.DeepEqual(got.Onward, h.Onward[:c.want]) || c.room > 0 && len(token) > c.room) {
			t.Errorf("%d stops are left in %d bytes, %v; want %d", len(got.Onward), len(token), err, c.want)
		}
	}
	h := testHop()
	h.ClientRequestID = strings.Repeat("x", 8<<10)
	if _, err := keys.Sign(&h, hop.NewSequence("boot"), new(newer()), testTime); err == nil {
		t.Error("a token that is too long is signed")
	}
}

// Neither what JSON cannot have nor what it does not accept is in a token in binary.
func TestBoundsInBinary(t *testing.T) {
	keys := hop.RandomKeys()
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		h := testHop()
		h.ReturnProbability = bad
		if _, err := keys.Sign(&h, hop.NewSequence("boot"), new(newer()), testTime); err == nil {
			t.Errorf("%v is signed", bad)
		}
	}
	const day = 24 * time.Hour
	for _, d := range []time.Duration{day, -day, day + time.Millisecond, -day - time.Millisecond, math.MaxInt64} {
		h := testHop()
		h.Total = hop.Millis(d)
		_, err := verify(keys, mustSign(t, keys, h, newer()), newer(), testTime)
		if want := d.Abs() <= day; (err == nil) != want || err != nil && !errors.Is(err, hop.ErrBadToken) {
			t.Errorf("a total of %s: %v", d, err)
		}
	}
	h := testHop()
	h.ReturnProbability = math.Copysign(0, -1)
	if got, err := verify(keys, mustSign(t, keys, h, newer()), newer(), testTime); err != nil || math.Signbit(got.ReturnProbability) {
		t.Errorf("0 with a sign is read as %v, %v", got.ReturnProbability, err)
	}
}

// A payload that can be read is the only one of its token.
func FuzzPayload(f *testing.F) {
	full := onwardToken("fra/fra-1", "ams/ams-1")
	full.Headers = &hop.MoreHeaders{Names: []string{"x-tenant"}, Sum: bytes.Repeat([]byte{1}, 32)}
	for _, h := range []hop.Token{{}, testHop(), full} {
		payload, err := hop.AppendPayload(nil, &h)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(payload)
		f.Add(append(payload, 0))
	}
	f.Add([]byte{0x80, 0})
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	f.Fuzz(func(t *testing.T, payload []byte) {
		got, err := hop.ParsePayload(string(payload))
		if err != nil {
			return
		}
		again, err := hop.AppendPayload(nil, &got)
		if err != nil || !bytes.Equal(again, payload) {
			t.Errorf("%x is %+v\nand then %x, %v", payload, got, again, err)
		}
	})
}

// A token in binary without a valid signature is refused, however it looks.
func FuzzVerifyBinary(f *testing.F) {
	keys := hop.RandomKeys() // of each process that fuzzes, as the token that is good is
	good := mustSign(f, keys, withHeaders(), newer())
	content, _ := base64.RawURLEncoding.DecodeString(good[3:])
	f.Add(content, "")
	f.Add(content[:64], "A")
	f.Add([]byte(nil), "====")
	f.Fuzz(func(t *testing.T, content []byte, rest string) {
		token := "v3." + base64.RawURLEncoding.EncodeToString(content) + rest
		if _, err := verify(keys, token, newer(), testTime); err == nil && token != good {
			t.Fatalf("believed %q", token)
		}
	})
}

func BenchmarkSign(b *testing.B) {
	keys, to, sequence := hop.RandomKeys(), newer(), hop.NewSequence("boot")
	to.Body = bytes.Repeat([]byte("x"), 1024)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := keys.Sign(new(testHop()), sequence, &to, testTime); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifyHead(b *testing.B) {
	keys, to := hop.RandomKeys(), newer()
	token := []byte(mustSign(b, keys, testHop(), to))
	b.ReportAllocs()
	for b.Loop() {
		if err := keys.VerifyHead(new(hop.Verified), token, &to, testTime); err != nil {
			b.Fatal(err)
		}
	}
}
