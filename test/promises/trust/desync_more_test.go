package trust_test

import (
	"strings"

	"colonnade/internal/fleettest"
	"colonnade/internal/wiretest"
)

// firstLineCases are requests with an invalid or misplaced request line.
func firstLineCases() (all []desync) {
	rest := commonLines + framedByLength + "\r\n\r\n{body}"
	in := func(answers string, lines ...string) {
		for _, l := range lines {
			all = append(all, desync{l, l + rest, answers, ""})
		}
	}
	in(bad, "POST "+fleettest.ChatPath+" HTTP/1.2", "POST "+fleettest.ChatPath+" HTTP/0.9", "POST "+fleettest.ChatPath+" HTTP/2.0", "POST "+fleettest.ChatPath+" HTTP/2", "POST "+fleettest.ChatPath+" HTTP/3.0", "POST "+fleettest.ChatPath+" HTTP/1.10",
		"POST "+fleettest.ChatPath+" HTTP/01.1", "POST "+fleettest.ChatPath+" http/1.1", "POST "+fleettest.ChatPath+" HTTP/1,1", "POST "+fleettest.ChatPath+" HTTP/1.1 ", "POST "+fleettest.ChatPath+" HTTP/1.1\t", "POST "+fleettest.ChatPath+" HTTP /1.1",
		"POST "+fleettest.ChatPath+" HTTP/1.1\r", "POST "+fleettest.ChatPath+" HTTP/1.1\x00", "POST "+fleettest.ChatPath+" XTTP/1.1", "POST "+fleettest.ChatPath+" HTTP/+1.1", "POST "+fleettest.ChatPath+" HTTP/1.1 HTTP/1.1", "POST "+fleettest.ChatPath+" ICY/1.1",
		"POST  "+fleettest.ChatPath+" HTTP/1.1", "POST "+fleettest.ChatPath+"  HTTP/1.1", "POST\t"+fleettest.ChatPath+" HTTP/1.1", "POST "+fleettest.ChatPath+"\tHTTP/1.1", " POST "+fleettest.ChatPath+" HTTP/1.1", "\tPOST "+fleettest.ChatPath+" HTTP/1.1", "POST\x0b"+fleettest.ChatPath+" HTTP/1.1",
		"\rPOST "+fleettest.ChatPath+" HTTP/1.1", "\x00POST "+fleettest.ChatPath+" HTTP/1.1", "POST "+fleettest.ChatPath, "POST", "POST "+fleettest.ChatPath+" ", fleettest.ChatPath+" HTTP/1.1", "POST HTTP/1.1", "POST  HTTP/1.1",
		"POST "+fleettest.ChatPath+"#x HTTP/1.1", "POST "+fleettest.ChatPath+"?a#x HTTP/1.1", "POST "+fleettest.ChatPath+"\x00 HTTP/1.1", "POST "+fleettest.ChatPath+"\r HTTP/1.1", "POST "+fleettest.ChatPath+"\xff HTTP/1.1", "POST "+fleettest.ChatPath+"\x7f HTTP/1.1",
		"POST "+fleettest.ChatPath+"? a HTTP/1.1", "PO(ST "+fleettest.ChatPath+" HTTP/1.1", "P\x00ST "+fleettest.ChatPath+" HTTP/1.1", "POST:"+fleettest.ChatPath+" HTTP/1.1", "POST * HTTP/1.1", "POST v1/chat/completions HTTP/1.1", "POST ? HTTP/1.1")
	in(good, "POST "+fleettest.ChatPath+"?a=b HTTP/1.1", "POST "+fleettest.ChatPath+"?%0d%0a HTTP/1.1", "POST "+fleettest.ChatPath+"? HTTP/1.1", "\r\nPOST "+fleettest.ChatPath+" HTTP/1.1", "\r\n\r\nPOST "+fleettest.ChatPath+" HTTP/1.1")
	in("", "\r\n\nPOST "+fleettest.ChatPath+" HTTP/1.1") // nothing but empty lines came
	in(bad, "\nPOST "+fleettest.ChatPath+" HTTP/1.1", "\r\r\nPOST "+fleettest.ChatPath+" HTTP/1.1")
	for _, end := range []string{"\n", "\n\r\n", "\n\r", "\r\r\n"} {
		all = append(all, desync{"request line with another end", firstLine + end + strings.TrimPrefix(rest, "\r\n"), bad, ""})
	}
	return append(all,
		desync{"HTTP/0.9", "GET " + fleettest.ChatPath + "\r\n", bad, ""},
		desync{"HTTP/0.9 by LF", "GET " + fleettest.ChatPath + "\n", bad, ""},
		desync{"preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", bad, ""},
		desync{"TLS", "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n", bad, ""},
		desync{"PROXY", "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n" + firstLine + rest, bad, ""},
		desync{"a response", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", bad, ""})
}

func hostCases() (all []desync) {
	to := func(answers string, target string, hosts ...string) {
		wire := "POST " + target + " HTTP/1.1\r\n"
		for _, h := range hosts {
			wire += "Host: " + h + "\r\n"
		}
		wire += "Content-Type: application/json\r\n{auth}\r\n" + framedByLength + "\r\n\r\n{body}"
		all = append(all, desync{target + " at " + strings.Join(hosts, " and "), wire, answers, ""})
	}
	to(good, "http://fleet"+fleettest.ChatPath, "fleet")
	to(good, "HTTP://FLEET"+fleettest.ChatPath, "fleet")
	to(good, "https://fleet:8443"+fleettest.ChatPath, "fleet:8443")
	for _, target := range []string{"http://other" + fleettest.ChatPath, "http://fleet:80" + fleettest.ChatPath, "http://user@fleet" + fleettest.ChatPath, "http://fleet@other" + fleettest.ChatPath, "http://user:pass@fleet" + fleettest.ChatPath,
		"http://" + fleettest.ChatPath, "http:" + fleettest.ChatPath, "http://fleet", "http://fleet?a", "http://fleet#a", "http://fleet\\" + fleettest.ChatPath, "ftp://fleet" + fleettest.ChatPath, "://fleet" + fleettest.ChatPath, "fleet" + fleettest.ChatPath, "fleet:80",
		"http://fleet%2f" + fleettest.ChatPath, "http://[fleet" + fleettest.ChatPath, "http://fleet.other" + fleettest.ChatPath, "http:///fleet" + fleettest.ChatPath, "http://fleet:" + fleettest.ChatPath, "javascript://fleet" + fleettest.ChatPath} {
		to(bad, target, "fleet")
	}
	to(bad, fleettest.ChatPath)
	to(bad, fleettest.ChatPath, "fleet", "fleet")
	to(bad, fleettest.ChatPath, "fleet", "other")
	for _, host := range []string{"", " ", "a b", "a/b", "user@fleet", "a,b", "a\\b", "a?b", "a#b", "\xff", "a\x00b", "fleet\r\n x", "fleet\rHost: other", "fleet\nHost: other", "<fleet>", "%66leet", "fleet;", "\"fleet\""} {
		to(bad, fleettest.ChatPath, host)
	}
	to(bad, "http://fleet"+fleettest.ChatPath, "fleet", "other")
	to(bad, "http://fleet"+fleettest.ChatPath, "other")
	return append(all,
		desync{"no host, absolute", "POST http://fleet" + fleettest.ChatPath + " HTTP/1.1\r\n{auth}\r\n" + framedByLength + "\r\n\r\n{body}", bad, ""},
		desync{"host behind a space", firstLine + "\r\nHost : other" + commonLines + framedByLength + "\r\n\r\n{body}", bad, ""},
		desync{"host that folds", firstLine + commonLines + "X-A: b\r\n Host: other\r\n" + framedByLength + "\r\n\r\n{body}", bad, ""},
		desync{"hosts of two", asked("Host: other\r\n"+framedByLength, "{body}"), bad, ""})
}

// methodCases are requests of other methods, with and without bodies.
func methodCases() (all []desync) {
	for _, method := range []string{"PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND", "post", "Post", "QUERY", "M-SEARCH", "X"} {
		all = append(all, desync{method, method + strings.TrimPrefix(asked(framedByLength, "{body}"), "POST"), "405 200", "405"},
			desync{method + " in chunks", method + strings.TrimPrefix(asked("Transfer-Encoding: chunked", "{chunked}"), "POST"), "405", ""},
			desync{method + " of both", method + strings.TrimPrefix(asked("Transfer-Encoding: chunked\r\n"+framedByLength, "{chunked}"), "POST"), bad, ""})
	}
	for _, method := range []string{"GET", "HEAD"} {
		line := method + strings.TrimPrefix(firstLine, "POST") + commonLines
		all = append(all, desync{method + " with a body", line + framedByLength + "\r\n\r\n{body}", bad, ""},
			desync{method + " with a hidden body", line + "Content-Length: {hiddenlen}\r\n\r\n", bad, ""},
			desync{method + " in chunks", line + "Transfer-Encoding: chunked\r\n\r\n{chunked}", bad, ""},
			desync{method + " with no chunks", line + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", bad, ""},
			desync{method + " with a length of 0", line + "Content-Length: 0\r\n\r\n", "405 200", "405"},
			desync{method + " without a body", line + "\r\n", "405 200", "405"},
			desync{method + " without a body, followed by some", line + "\r\n{body}", "405 400", "405"})
	}
	return append(all,
		desync{"CONNECT", "CONNECT fleet:80 HTTP/1.1" + commonLines + "\r\n", "405", ""},
		desync{"CONNECT to a path", "CONNECT " + fleettest.ChatPath + " HTTP/1.1" + commonLines + framedByLength + "\r\n\r\n{body}", "405", ""},
		desync{"connect", "connect " + fleettest.ChatPath + " HTTP/1.1" + commonLines + "\r\n", "405 200", "405"},
		desync{"TRACE", "TRACE " + fleettest.ChatPath + " HTTP/1.1" + commonLines + "\r\n", "405", ""},
		desync{"TRACE with a body", "TRACE " + fleettest.ChatPath + " HTTP/1.1" + commonLines + framedByLength + "\r\n\r\n{body}", "405", ""},
		desync{"OPTIONS of all", "OPTIONS * HTTP/1.1" + commonLines + "\r\n", bad, ""},
		desync{"method override", asked("X-HTTP-Method-Override: GET\r\nX-HTTP-Method: DELETE\r\n"+framedByLength, "{body}"), good, ""})
}

func expectCases() []desync {
	old := "POST " + fleettest.ChatPath + " HTTP/1.0" + commonLines + "Expect: 100-continue\r\n" + framedByLength
	return append(each(bad, "{body}", framedByLength+"\r\nExpect: 100-continue, x", framedByLength+"\r\nExpect: x", framedByLength+"\r\nExpect: ", framedByLength+"\r\nExpect: 200-ok",
		framedByLength+"\r\nExpect: 100-continue\r\nExpect: 100-continue", framedByLength+"\r\nExpect: 100-continue;a", framedByLength+"\r\nExpect: y 100-continue", framedByLength+"\r\nExpect: \x0b100-continue",
		framedByLength+"\r\nExpect : 100-continue", framedByLength+"\r\n Expect: 100-continue", framedByLength+"\r\nExpect:\r\n 100-continue", framedByLength+"\r\nExpect: 100-continue\x00"),
		desync{"expecting", asked("Expect: 100-continue\r\n"+framedByLength, "{body}"), "100 200 200", ""},
		desync{"Expecting", asked("Expect: 100-Continue\r\n"+framedByLength, "{body}"), "100 200 200", ""},
		desync{"expecting, in chunks", asked("Expect: 100-continue\r\nTransfer-Encoding: chunked", "{chunked}"), "100 200 200", ""},
		desync{"expecting nothing", asked("Expect: 100-continue\r\nContent-Length: 0", ""), bad + " 200", "403"},
		desync{"expecting, without a body", "GET " + fleettest.ChatPath + " HTTP/1.1" + commonLines + "Expect: 100-continue\r\n\r\n", "405 200", "405"},
		desync{"expecting in HTTP/1.0", old + "\r\n\r\n{body}", goodLast, ""},
		desync{"expecting in HTTP/1.0, to be kept", old + "\r\nConnection: keep-alive\r\n\r\n{body}", good, ""},
		desync{"expecting, with two framings", asked("Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n"+framedByLength, "{chunked}"), bad, ""},
		desync{"expecting, too long", asked("Expect: 100-continue\r\nContent-Length: 999999999999999", strings.Repeat("x", 9<<10)), "413", "100 413"})
}

// upgradeCases are requests to switch protocols. All are ignored or refused, and are the last on their connection.
func upgradeCases() []desync {
	const upgrade = "Connection: Upgrade\r\nUpgrade: "
	return append(append(each(bad, "{body}", framedByLength+"\r\n"+upgrade+"websocket", framedByLength+"\r\n"+upgrade+"TLS/1.0", framedByLength+"\r\n"+upgrade+"HTTP/2.0", framedByLength+"\r\n"+upgrade+"h2c, websocket",
		framedByLength+"\r\n"+upgrade, framedByLength+"\r\n"+upgrade+"h2c\r\nUpgrade: websocket", framedByLength+"\r\n"+upgrade+"h2", framedByLength+"\r\nUpgrade : h2c", framedByLength+"\r\nUpgrade:\r\n h2c"),
		each(goodLast, "{body}", framedByLength+"\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA", framedByLength+"\r\n"+upgrade+"H2C", framedByLength+"\r\nUpgrade: h2c")...),
		desync{"h2c in chunks", asked(upgrade+"h2c\r\nTransfer-Encoding: chunked", "{chunked}"), goodLast, ""},
		desync{"h2c in HTTP/1.0", "POST " + fleettest.ChatPath + " HTTP/1.0" + commonLines + upgrade + "h2c\r\n" + framedByLength + "\r\n\r\n{body}", goodLast, ""})
}

func longCases() []desync {
	long := strings.Repeat("a", 17<<10)
	return []desync{
		{"target", "POST " + fleettest.ChatPath + "?" + long + " HTTP/1.1" + commonLines + framedByLength + "\r\n\r\n{body}", "431", ""},
		{"method", strings.ToUpper(long) + " " + fleettest.ChatPath + " HTTP/1.1" + commonLines + framedByLength + "\r\n\r\n{body}", "431", ""},
		{"version", "POST " + fleettest.ChatPath + " HTTP/1." + strings.Repeat("1", 17<<10) + commonLines + framedByLength + "\r\n\r\n{body}", "431", ""},
		{"name", asked(long+": a\r\n"+framedByLength, "{body}"), "431", ""},
		{"value", asked("X-Note: "+long+"\r\n"+framedByLength, "{body}"), "431", ""},
		{"length", asked("Content-Length: "+strings.Repeat("0", 17<<10)+"{len}", "{body}"), "431", ""},
		{"coding", asked("Transfer-Encoding: chunked"+strings.Repeat(" ", 17<<10), "{chunked}"), "431", ""},
		{"head", asked(strings.Repeat("X-Note: a\r\n", 2000)+framedByLength, "{body}"), "431", ""},
		{"too many", asked(strings.Repeat("X-Note: a\r\n", 120)+framedByLength, "{body}"), "431", ""},
		{"padding before", strings.Repeat("\r\n", 9<<10) + asked(framedByLength, "{body}"), "", ""},
		{"name of 1 KiB", asked(long[:1<<10]+": a\r\n"+framedByLength, "{body}"), good, ""},
		{"trailer", asked("Transfer-Encoding: chunked", "2c\r\n{body}\r\n0\r\nX-Note: "+long+"\r\n\r\n"), "431", ""},
		{"one chunk, in pieces of a byte", asked("Transfer-Encoding: chunked", wiretest.Chunked(firstBody, 1)), good, ""},
	}
}
