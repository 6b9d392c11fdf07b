package onebox_test

import "strings"

// firstLineCases are requests whose first line is not what it should be, or where it should be.
func firstLineCases() (all []desync) {
	rest := commonLines + framedByLength + "\r\n\r\n{body}"
	in := func(answers string, lines ...string) {
		for _, l := range lines {
			all = append(all, desync{l, l + rest, answers, ""})
		}
	}
	in(bad, "POST "+chatPath+" HTTP/1.2", "POST "+chatPath+" HTTP/0.9", "POST "+chatPath+" HTTP/2.0", "POST "+chatPath+" HTTP/2", "POST "+chatPath+" HTTP/3.0", "POST "+chatPath+" HTTP/1.10",
		"POST "+chatPath+" HTTP/01.1", "POST "+chatPath+" http/1.1", "POST "+chatPath+" HTTP/1,1", "POST "+chatPath+" HTTP/1.1 ", "POST "+chatPath+" HTTP/1.1\t", "POST "+chatPath+" HTTP /1.1",
		"POST "+chatPath+" HTTP/1.1\r", "POST "+chatPath+" HTTP/1.1\x00", "POST "+chatPath+" XTTP/1.1", "POST "+chatPath+" HTTP/+1.1", "POST "+chatPath+" HTTP/1.1 HTTP/1.1", "POST "+chatPath+" ICY/1.1",
		"POST  "+chatPath+" HTTP/1.1", "POST "+chatPath+"  HTTP/1.1", "POST\t"+chatPath+" HTTP/1.1", "POST "+chatPath+"\tHTTP/1.1", " POST "+chatPath+" HTTP/1.1", "\tPOST "+chatPath+" HTTP/1.1", "POST\x0b"+chatPath+" HTTP/1.1",
		"\rPOST "+chatPath+" HTTP/1.1", "\x00POST "+chatPath+" HTTP/1.1", "POST "+chatPath, "POST", "POST "+chatPath+" ", chatPath+" HTTP/1.1", "POST HTTP/1.1", "POST  HTTP/1.1",
		"POST "+chatPath+"#x HTTP/1.1", "POST "+chatPath+"?a#x HTTP/1.1", "POST "+chatPath+"\x00 HTTP/1.1", "POST "+chatPath+"\r HTTP/1.1", "POST "+chatPath+"\xff HTTP/1.1", "POST "+chatPath+"\x7f HTTP/1.1",
		"POST "+chatPath+"? a HTTP/1.1", "PO(ST "+chatPath+" HTTP/1.1", "P\x00ST "+chatPath+" HTTP/1.1", "POST:"+chatPath+" HTTP/1.1", "POST * HTTP/1.1", "POST v1/chat/completions HTTP/1.1", "POST ? HTTP/1.1")
	in(good, "POST "+chatPath+"?a=b HTTP/1.1", "POST "+chatPath+"?%0d%0a HTTP/1.1", "POST "+chatPath+"? HTTP/1.1", "\r\nPOST "+chatPath+" HTTP/1.1", "\r\n\r\nPOST "+chatPath+" HTTP/1.1")
	in("", "\r\n\nPOST "+chatPath+" HTTP/1.1") // a connection on which nothing came but empty lines
	in(bad, "\nPOST "+chatPath+" HTTP/1.1", "\r\r\nPOST "+chatPath+" HTTP/1.1")
	for _, end := range []string{"\n", "\n\r\n", "\n\r", "\r\r\n"} {
		all = append(all, desync{"first line that ends in another way", firstLine + end + strings.TrimPrefix(rest, "\r\n"), bad, ""})
	}
	return append(all,
		desync{"HTTP/0.9", "GET " + chatPath + "\r\n", bad, ""},
		desync{"HTTP/0.9 by LF", "GET " + chatPath + "\n", bad, ""},
		desync{"preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", bad, ""},
		desync{"TLS", "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n", bad, ""},
		desync{"PROXY", "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n" + firstLine + rest, bad, ""},
		desync{"an answer", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", bad, ""})
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
	to(good, "http://fleet"+chatPath, "fleet")
	to(good, "HTTP://FLEET"+chatPath, "fleet")
	to(good, "https://fleet:8443"+chatPath, "fleet:8443")
	for _, target := range []string{"http://other" + chatPath, "http://fleet:80" + chatPath, "http://user@fleet" + chatPath, "http://fleet@other" + chatPath, "http://user:pass@fleet" + chatPath,
		"http://" + chatPath, "http:" + chatPath, "http://fleet", "http://fleet?a", "http://fleet#a", "http://fleet\\" + chatPath, "ftp://fleet" + chatPath, "://fleet" + chatPath, "fleet" + chatPath, "fleet:80",
		"http://fleet%2f" + chatPath, "http://[fleet" + chatPath, "http://fleet.other" + chatPath, "http:///fleet" + chatPath, "http://fleet:" + chatPath, "javascript://fleet" + chatPath} {
		to(bad, target, "fleet")
	}
	to(bad, chatPath)
	to(bad, chatPath, "fleet", "fleet")
	to(bad, chatPath, "fleet", "other")
	for _, host := range []string{"", " ", "a b", "a/b", "user@fleet", "a,b", "a\\b", "a?b", "a#b", "\xff", "a\x00b", "fleet\r\n x", "fleet\rHost: other", "fleet\nHost: other", "<fleet>", "%66leet", "fleet;", "\"fleet\""} {
		to(bad, chatPath, host)
	}
	to(bad, "http://fleet"+chatPath, "fleet", "other")
	to(bad, "http://fleet"+chatPath, "other")
	return append(all,
		desync{"no host, absolute", "POST http://fleet" + chatPath + " HTTP/1.1\r\n{auth}\r\n" + framedByLength + "\r\n\r\n{body}", bad, ""},
		desync{"host behind a space", firstLine + "\r\nHost : other" + commonLines + framedByLength + "\r\n\r\n{body}", bad, ""},
		desync{"host that folds", firstLine + commonLines + "X-A: b\r\n Host: other\r\n" + framedByLength + "\r\n\r\n{body}", bad, ""},
		desync{"hosts of two", asked("Host: other\r\n"+framedByLength, "{body}"), bad, ""})
}

// methodCases are requests of other methods, with and without bodies. A body that has come keeps the connection in step.
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
		desync{"CONNECT to a path", "CONNECT " + chatPath + " HTTP/1.1" + commonLines + framedByLength + "\r\n\r\n{body}", "405", ""},
		desync{"connect", "connect " + chatPath + " HTTP/1.1" + commonLines + "\r\n", "405 200", "405"},
		desync{"TRACE", "TRACE " + chatPath + " HTTP/1.1" + commonLines + "\r\n", "405", ""},
		desync{"TRACE with a body", "TRACE " + chatPath + " HTTP/1.1" + commonLines + framedByLength + "\r\n\r\n{body}", "405", ""},
		desync{"OPTIONS of all", "OPTIONS * HTTP/1.1" + commonLines + "\r\n", bad, ""},
		desync{"another method said beside", asked("X-HTTP-Method-Override: GET\r\nX-HTTP-Method: DELETE\r\n"+framedByLength, "{body}"), good, ""})
}

func expectCases() []desync {
	old := "POST " + chatPath + " HTTP/1.0" + commonLines + "Expect: 100-continue\r\n" + framedByLength
	return append(each(bad, "{body}", framedByLength+"\r\nExpect: 100-continue, x", framedByLength+"\r\nExpect: x", framedByLength+"\r\nExpect: ", framedByLength+"\r\nExpect: 200-ok",
		framedByLength+"\r\nExpect: 100-continue\r\nExpect: 100-continue", framedByLength+"\r\nExpect: 100-continue;a", framedByLength+"\r\nExpect: y 100-continue", framedByLength+"\r\nExpect: \x0b100-continue",
		framedByLength+"\r\nExpect : 100-continue", framedByLength+"\r\n Expect: 100-continue", framedByLength+"\r\nExpect:\r\n 100-continue", framedByLength+"\r\nExpect: 100-continue\x00"),
		desync{"expecting", asked("Expect: 100-continue\r\n"+framedByLength, "{body}"), "100 200 200", ""},
		desync{"Expecting", asked("Expect: 100-Continue\r\n"+framedByLength, "{body}"), "100 200 200", ""},
		desync{"expecting, in chunks", asked("Expect: 100-continue\r\nTransfer-Encoding: chunked", "{chunked}"), "100 200 200", ""},
		desync{"expecting nothing", asked("Expect: 100-continue\r\nContent-Length: 0", ""), bad + " 200", "403"},
		desync{"expecting, without a body", "GET " + chatPath + " HTTP/1.1" + commonLines + "Expect: 100-continue\r\n\r\n", "405 200", "405"},
		desync{"expecting in HTTP/1.0", old + "\r\n\r\n{body}", goodLast, ""},
		desync{"expecting in HTTP/1.0, to be kept", old + "\r\nConnection: keep-alive\r\n\r\n{body}", good, ""},
		desync{"expecting, with two framings", asked("Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n"+framedByLength, "{chunked}"), bad, ""},
		desync{"expecting, too long", asked("Expect: 100-continue\r\nContent-Length: 999999999999999", strings.Repeat("x", 9<<10)), "413", "100 413"})
}

// upgradeCases are requests to switch protocols, which are all passed over or refused. Each is the connection's last.
func upgradeCases() []desync {
	const upgrade = "Connection: Upgrade\r\nUpgrade: "
	return append(append(each(bad, "{body}", framedByLength+"\r\n"+upgrade+"websocket", framedByLength+"\r\n"+upgrade+"TLS/1.0", framedByLength+"\r\n"+upgrade+"HTTP/2.0", framedByLength+"\r\n"+upgrade+"h2c, websocket",
		framedByLength+"\r\n"+upgrade, framedByLength+"\r\n"+upgrade+"h2c\r\nUpgrade: websocket", framedByLength+"\r\n"+upgrade+"h2", framedByLength+"\r\nUpgrade : h2c", framedByLength+"\r\nUpgrade:\r\n h2c"),
		each(goodLast, "{body}", framedByLength+"\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA", framedByLength+"\r\n"+upgrade+"H2C", framedByLength+"\r\nUpgrade: h2c")...),
		desync{"h2c in chunks", asked(upgrade+"h2c\r\nTransfer-Encoding: chunked", "{chunked}"), goodLast, ""},
		desync{"h2c in HTTP/1.0", "POST " + chatPath + " HTTP/1.0" + commonLines + upgrade + "h2c\r\n" + framedByLength + "\r\n\r\n{body}", goodLast, ""})
}

func longCases() []desync {
	long := strings.Repeat("a", 17<<10)
	return []desync{
		{"target", "POST " + chatPath + "?" + long + " HTTP/1.1" + commonLines + framedByLength + "\r\n\r\n{body}", "431", ""},
		{"method", strings.ToUpper(long) + " " + chatPath + " HTTP/1.1" + commonLines + framedByLength + "\r\n\r\n{body}", "431", ""},
		{"version", "POST " + chatPath + " HTTP/1." + strings.Repeat("1", 17<<10) + commonLines + framedByLength + "\r\n\r\n{body}", "431", ""},
		{"name", asked(long+": a\r\n"+framedByLength, "{body}"), "431", ""},
		{"value", asked("X-Note: "+long+"\r\n"+framedByLength, "{body}"), "431", ""},
		{"length", asked("Content-Length: "+strings.Repeat("0", 17<<10)+"{len}", "{body}"), "431", ""},
		{"coding", asked("Transfer-Encoding: chunked"+strings.Repeat(" ", 17<<10), "{chunked}"), "431", ""},
		{"head", asked(strings.Repeat("X-Note: a\r\n", 2000)+framedByLength, "{body}"), "431", ""},
		{"too many", asked(strings.Repeat("X-Note: a\r\n", 120)+framedByLength, "{body}"), "431", ""},
		{"padding before", strings.Repeat("\r\n", 9<<10) + asked(framedByLength, "{body}"), "", ""},
		{"name of 1 KiB", asked(long[:1<<10]+": a\r\n"+framedByLength, "{body}"), good, ""},
		{"trailer", asked("Transfer-Encoding: chunked", "2c\r\n{body}\r\n0\r\nX-Note: "+long+"\r\n\r\n"), "431", ""},
		{"one chunk, in pieces of a byte", asked("Transfer-Encoding: chunked", inChunks(firstBody, 1)), good, ""},
	}
}
