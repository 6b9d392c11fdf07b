package trust_test

import (
	"strings"

	"colonnade/internal/fleettest"
)

type desyncGroup struct {
	name  string
	cases []desync
}

func desyncTable() []desyncGroup {
	return []desyncGroup{
		{"valid", validRequests()}, {"lengths", lengthCases()}, {"codings", codingCases()}, {"both", bothCases()},
		{"chunks", chunkCases()}, {"trailers", trailerCases()}, {"lines", lineCases()}, {"names", nameCases()}, {"first line", firstLineCases()},
		{"hosts", hostCases()}, {"methods", methodCases()}, {"expectations", expectCases()}, {"upgrades", upgradeCases()}, {"long", longCases()},
	}
}

const (
	firstLine   = "POST " + fleettest.ChatPath + " HTTP/1.1"
	commonLines = "\r\nHost: fleet\r\nContent-Type: application/json\r\n{auth}\r\n"
	good        = "200 200" // the connection is kept
	goodLast    = "200"
	bad         = "400" // nothing behind it is read
)

// asked is a request with further header lines.
func asked(lines, content string) string {
	return firstLine + commonLines + lines + "\r\n\r\n" + content
}

// each makes a case of each of the header lines, with the same content.
func each(answers, content string, lines ...string) (all []desync) {
	for _, l := range lines {
		all = append(all, desync{name: l, wire: asked(l, content), answers: answers})
	}
	return all
}

const framedByLength = "Content-Length: {len}"

func validRequests() []desync {
	return append(each(good, "{body}", framedByLength, "content-length:{len}", "CONTENT-LENGTH:\t {len} \t", "Content-Length: 0{len}",
		framedByLength+"\r\nConnection: keep-alive", framedByLength+"\r\nX-Note:", framedByLength+"\r\nX-Note: \t ", framedByLength+"\r\nX-Note: \xff\xfe"),
		append(each(good, "{chunked}", "Transfer-Encoding: chunked", "transfer-encoding:chunked", "Transfer-Encoding:\tchunked \t", "TE: trailers\r\nTransfer-Encoding: chunked"),
			append(each(goodLast, "{body}", framedByLength+"\r\nConnection: close", framedByLength+"\r\nConnection: keep-alive, close"),
				desync{"last, in chunks", asked("Connection: close\r\nTransfer-Encoding: chunked", "{chunked}"), goodLast, ""},
				desync{"old", "POST " + fleettest.ChatPath + " HTTP/1.0" + commonLines + framedByLength + "\r\n\r\n{body}", goodLast, ""},
				desync{"old, to be kept", "POST " + fleettest.ChatPath + " HTTP/1.0" + commonLines + "Connection: keep-alive\r\n" + framedByLength + "\r\n\r\n{body}", good, ""},
			)...)...)
}

func lengthCases() []desync {
	return append(each(bad, "{body}",
		framedByLength+"\r\n"+framedByLength, framedByLength+"\r\ncontent-length: 5", "Content-Length: 0\r\n"+framedByLength, framedByLength+"\r\nContent-Length: 0",
		"Content-Length: {len}, {len}", "Content-Length: {len},", "Content-Length: ,{len}", "Content-Length: 5, {len}", "Content-Length: 5; {len}",
		"Content-Length: +{len}", "Content-Length: -{len}", "Content-Length: -0", "Content-Length: 0x2c", "Content-Length: 4 4", "Content-Length: {len}.0",
		"Content-Length: {len}e0", "Content-Length: 4_4", "Content-Length: \"{len}\"", "Content-Length: {len}\x0b", "Content-Length: \x0c{len}", "Content-Length: {len}\x00",
		"Content-Length: {len}\xa0", "Content-Length: \xd9\xa4\xd9\xa4", "Content-Length:", "Content-Length: ", "Content-Length: NaN", "Content-Length: 00000000000000000000{len}",
		"Content-Length: 18446744073709551660", "Content-Length: 99999999999999999999999999", "Content-Length : {len}", "Content-Length\t: {len}", "Content-Length\r\n: {len}",
		"Content-Length:\r\n {len}", " Content-Length: {len}", "Content Length: {len}", "Content_Length: {len}", "Content.Length: {len}",
		framedByLength+"\r\nContent_Length: 5", framedByLength+"\r\nContent-Length : 5", framedByLength+"\r\n Content-Length: 5", framedByLength+"\r\nConnection: Content-Length"),
		desync{"none", asked("X-Note: no framing", ""), bad + " 200", "403"},
		desync{"zero", asked("Content-Length: 0", ""), bad + " 200", "403"},
		desync{"too long", asked("Content-Length: 999999999999999", strings.Repeat("x", 9<<10)), "413", ""},
		desync{"hidden request in the body", asked("Content-Length: {hiddenlen}", "{hidden}"), bad + " 200", "403"},
	)
}

func codingCases() []desync {
	return each(bad, "{chunked}",
		"Transfer-Encoding: Chunked", "Transfer-Encoding: CHUNKED", "Transfer-Encoding: identity", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, gzip",
		"Transfer-Encoding: chunked, chunked", "Transfer-Encoding: chunked, identity", "Transfer-Encoding: identity, chunked", "Transfer-Encoding: ,chunked",
		"Transfer-Encoding: chunked,", "Transfer-Encoding: chunked ,", "Transfer-Encoding: xchunked", "Transfer-Encoding: x chunked", "Transfer-Encoding: chunkedx",
		"Transfer-Encoding: chunk", "Transfer-Encoding: \"chunked\"", "Transfer-Encoding: 'chunked'", "Transfer-Encoding: chunked;q=1", "Transfer-Encoding: chunked; a=b",
		"Transfer-Encoding: \x0bchunked", "Transfer-Encoding: chunked\x0b", "Transfer-Encoding: \x0cchunked", "Transfer-Encoding: chunked\x00", "Transfer-Encoding: \x00chunked",
		"Transfer-Encoding: chun\x00ked", "Transfer-Encoding: chunked\xa0", "Transfer-Encoding: \xe2\x84\xaahunked", "Transfer-Encoding: chun\u212aed", "Transfer-Encoding:", "Transfer-Encoding: ",
		"Transfer-Encoding: cow", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
		"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\ntransfer-encoding: x", "Transfer-Encoding:\r\n chunked", "Transfer-Encoding:\r\n\tchunked",
		"Transfer-Encoding: chunked\r\n , identity", "Transfer-Encoding: chunked\r\n\t", "Transfer-Encoding : chunked", "Transfer-Encoding\t: chunked", "Transfer-Encoding\x00: chunked",
		"\x00Transfer-Encoding: chunked", "Transfer_Encoding: chunked", "Transfer.Encoding: chunked", "transfer-encoding\r\n: chunked", " Transfer-Encoding: chunked", "\tTransfer-Encoding: chunked",
		"X-Note: a\nTransfer-Encoding: chunked", "X-Note: a\rTransfer-Encoding: chunked", "X-Note: a\n\rTransfer-Encoding: chunked", "X-Note: a\r\r\nTransfer-Encoding: chunked",
		"Transfer-Encoding: chunked\nX-Note: a", "Transfer-Encoding: chunked\r\r\nX-Note: a", "Transfer Encoding: chunked", "Transfer-Encoding: chunked\r\nConnection: Transfer-Encoding",
		"Foo: bar\r\n\rTransfer-Encoding: chunked", "Transfer-Encoding;: chunked", "Transfer-Encoding: chunked\r\nTransfer_Encoding: identity")
}

func bothCases() (all []desync) {
	for _, coding := range []string{"Transfer-Encoding: chunked", "transfer-encoding: CHUNKED", "Transfer-Encoding: identity", "Transfer-Encoding: xchunked",
		"Transfer-Encoding:\tchunked", "Transfer-Encoding: chunked, identity", "Transfer-Encoding : chunked", "Transfer_Encoding: chunked", "Transfer-Encoding:\r\n chunked",
		"X: y\nTransfer-Encoding: chunked", "X: y\rTransfer-Encoding: chunked", "TRANSFER-ENCODING:chunked", "Transfer-Encoding:"} {
		for _, length := range []string{framedByLength, "Content-Length: 0", "content-length: 4", "Content-Length: 6", "Content-Length : {len}", "Content_Length: {len}", "Content-Length:\t5"} {
			if strings.HasPrefix(length, "Content") && strings.HasPrefix(coding, "Transfer") {
				all = append(all, desync{"as a body of no chunks", asked(length+"\r\n"+coding, "0\r\n\r\nG"), bad, ""})
			}
			all = append(all, each(bad, "{chunked}", length+"\r\n"+coding, coding+"\r\n"+length)...)
		}
	}
	old := "POST " + fleettest.ChatPath + " HTTP/1.0" + commonLines
	return append(all,
		desync{"coding in HTTP/1.0", old + "Transfer-Encoding: chunked\r\n\r\n{chunked}", bad, ""},
		desync{"coding in HTTP/1.0, to be kept", old + "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}", bad, ""},
		desync{"both in HTTP/1.0", old + "Connection: keep-alive\r\nContent-Length: {len}\r\nTransfer-Encoding: chunked\r\n\r\n{body}", bad, ""},
		desync{"unknown coding in HTTP/1.0", old + "Content-Length: {len}\r\nTransfer-Encoding: identity\r\n\r\n{body}", bad, ""})
}

// chunkCases are chunked bodies.
func chunkCases() (all []desync) {
	in := func(answers string, bodies ...string) {
		for _, b := range bodies {
			all = append(all, desync{b[:min(len(b), 60)], asked("Transfer-Encoding: chunked", b), answers, ""})
		}
	}
	const size, end = "2c", "\r\n0\r\n\r\n" // that of firstBody
	in(good, size+"\r\n{body}"+end, "2C\r\n{body}"+end, "02c\r\n{body}"+end, "00000000002c\r\n{body}"+end, size+"\r\n{body}\r\n000\r\n\r\n", size+";a=b\r\n{body}"+end, size+";a=\"b;c\" ; d\r\n{body}\r\n0;e\r\n\r\n")
	in(bad, "0x2c\r\n{body}"+end, "+2c\r\n{body}"+end, "-2c\r\n{body}"+end, "2_c\r\n{body}"+end, " 2c\r\n{body}"+end, "\t2c\r\n{body}"+end, "\r\n2c\r\n{body}"+end,
		"2c\n{body}"+end, "2c\r{body}"+end, "2c\r\r\n{body}"+end, "2c\n\r\n{body}"+end, "2cg\r\n{body}"+end, "2c.0\r\n{body}"+end, "2c,\r\n{body}"+end, "2c\x00\r\n{body}"+end, "2c\x0b\r\n{body}"+end,
		"\r\n{body}"+end, ";a\r\n{body}"+end, "{body}", "\"2c\"\r\n{body}"+end, "00000000000000000000000000000002c\r\n{body}"+end, "1000000000000002c\r\n{body}"+end,
		"FFFFFFFFFFFFFFFFF\r\n{body}"+end, "fffffffffffffffe\r\n{body}"+end, "8000000000000000\r\n{body}"+end)
	// Chunk extensions, which servers end differently.
	in(bad, "2c;a\n{body}"+end, "2c;a\nb\r\n{body}"+end, "2c;a\rb\r\n{body}"+end, "2c;\n{body}"+end, "2c;a=\"\n\"\r\n{body}"+end, "2c ;a\r\n{body}"+end,
		"2c;\x00\r\n{body}"+end, "2c;a\x7f\r\n{body}"+end)
	// Data that is longer or shorter than its chunk.
	in(bad, size+"\r\n{body}0\r\n\r\n", size+"\r\n{body}\n0\r\n\r\n", size+"\r\n{body}\r0\r\n\r\n", size+"\r\n{body}\n\r0\r\n\r\n", size+"\r\n{body}xx"+end, "2b\r\n{body}"+end, "2d\r\n{body}"+end,
		size+"\r\n{body}\r\r\n0\r\n\r\n", size+"\r\n{body}xx0\r\n\r\n", size+"\r\n{body}\r\n\r\n0\r\n\r\n", size+"\r\n{body}\r\n 0\r\n\r\n")
	in(bad, size+"\r\n{body}\r\n0\n\n", size+"\r\n{body}\r\n0\n\r\n", size+"\r\n{body}\r\n0\r\r\n\r\n", size+"\r\n{body}\r\n0;\n\r\n", size+"\r\n{body}\r\n-0\r\n\r\n", size+"\r\n{body}\r\n0x0\r\n\r\n", size+"\r\n{body}\r\n0\r\n\r\r\n",
		size+" \r\n{body}"+end, size+"\t\r\n{body}"+end, size+"\r\n{body}\r\n0 \r\n\r\n", size+"\r\n{body}\r\n00000000000000000\r\n\r\n", size+";"+strings.Repeat("a", 1000)+"\r\n{body}"+end)
	// The body is complete; nothing behind it is read.
	in(goodLast, size+"\r\n{body}\r\n0\r\n\n", size+"\r\n{body}\r\n0\r\n\n\r\n")
	return all
}

func trailerCases() (all []desync) {
	for _, trailer := range []string{"X-Note: a\r\n", "x-colonnade-hop: v1.a.b\r\n", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "Host: other\r\n", "x_colonnade_hop: v1\r\n", "X-Note : a\r\n", ": a\r\n",
		"X-Note: a\nX-Other: b\r\n", "no colon\r\n", " folded: a\r\n", "X-Note: a\r\n b\r\n", "X-Note: a\rb\r\n", "X-Note: \x00\r\n", "POST " + fleettest.ChatPath + " HTTP/1.1\r\n", "X-Note: a\n", "\t\r\n", "X-Note:\r\n"} {
		all = append(all, desync{"trailer " + trailer, asked("Transfer-Encoding: chunked", "2c\r\n{body}\r\n0\r\n"+trailer+"\r\n"), bad, ""},
			desync{"announced trailer " + trailer, asked("Trailer: X-Note\r\nTransfer-Encoding: chunked", "2c\r\n{body}\r\n0\r\n"+trailer+"\r\n"), bad, ""})
	}
	return append(all,
		desync{"announced only", asked("Trailer: X-Note\r\nTransfer-Encoding: chunked", "{chunked}"), bad, ""},
		desync{"announced, with a length", asked("Trailer: X-Note\r\n"+framedByLength, "{body}"), bad, ""},
		desync{"no end of the trailers", asked("Transfer-Encoding: chunked", "2c\r\n{body}\r\n0\r\n"), bad, ""})
}

// lineCases are heads whose line ends are ambiguous.
func lineCases() []desync {
	all := each(bad, "{body}", "X-Note: a\n"+framedByLength, "X-Note: a\r"+framedByLength, framedByLength+"\n", framedByLength+"\r", "X-Note: a\r\r\n"+framedByLength, "X-Note: a\n\r\n"+framedByLength,
		"X-Note: a\r\n b\r\n"+framedByLength, "X-Note: a\r\n\tb\r\n"+framedByLength, "X-Note:\r\n a\r\n"+framedByLength, framedByLength+"\r\n x-colonnade-queue: never",
		"X-Note: a\x00b\r\n"+framedByLength, "X-Note: \x01\r\n"+framedByLength, "X-Note: \x0b\r\n"+framedByLength, "X-Note: \x7f\r\n"+framedByLength, "X-Note: \x1b[0m\r\n"+framedByLength,
		"X-Note: aaaaaaaaaaaaaaaaaaaaaaa\x00\r\n"+framedByLength, "X-Note: a\x85\n"+framedByLength)
	whole := func(s string) string { return strings.ReplaceAll(asked(framedByLength, ""), "\r\n", s) + "{body}" }
	return append(all,
		desync{"LF throughout", whole("\n"), bad, ""}, desync{"LF CR throughout", whole("\n\r"), bad, ""}, desync{"CR CR LF throughout", whole("\r\r\n"), bad, ""},
		desync{"LF LF in the head", asked("X-Note: a\n\n"+framedByLength, "{body}"), bad, ""},
		desync{"LF CR LF in the head", asked("X-Note: a\n\r\n"+framedByLength, "{body}"), bad, ""},
		desync{"folded first header", firstLine + "\r\n X-Note: a" + commonLines + framedByLength + "\r\n\r\n{body}", bad, ""},
		desync{"tab before the first header", firstLine + "\r\n\tHost: other" + commonLines + framedByLength + "\r\n\r\n{body}", bad, ""})
}

func nameCases() []desync {
	return each(bad, "{body}", framedByLength+"\r\nX-Note : a", framedByLength+"\r\nX-Note\t: a", framedByLength+"\r\n: a", framedByLength+"\r\n : a", framedByLength+"\r\nno colon", framedByLength+"\r\nX Note: a",
		framedByLength+"\r\nX\x00Note: a", framedByLength+"\r\nX\x01Note: a", framedByLength+"\r\nX-N\xf6te: a", framedByLength+"\r\nX(Note): a", framedByLength+"\r\n\"X-Note\": a", framedByLength+"\r\nX/Note: a",
		framedByLength+"\r\nX@Note: a", framedByLength+"\r\nX-Note\r: a", framedByLength+"\r\nX;Note: a", framedByLength+"\r\nX,Note: a",
		framedByLength+"\r\nx_colonnade_hop: v1", framedByLength+"\r\nx.colonnade.hop: v1", framedByLength+"\r\nx-colonnade_queue: wait", framedByLength+"\r\nX_Request_Id: abcdefgh",
		framedByLength+"\r\nX.Stainless.Timeout: 1", framedByLength+"\r\ncontent_type: text/plain", framedByLength+"\r\ncontent.encoding: gzip", framedByLength+"\r\nproxy_connection: close",
		framedByLength+"\r\nContent-Type: application/json")
}
