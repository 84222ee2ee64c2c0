package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mm-abi.org/mm/serve/api"
)

// listening serves on a real connection, with short limits for slow clients, and returns the
// address. The scripted answers do not block.
func listening(t testing.TB, change func(*api.Options)) (addr string, s *api.Server) {
	t.Helper()
	s, m := world(t, func(o *api.Options) {
		o.Body, o.HeaderTime, o.BodyTime = 64<<10, 200*time.Millisecond, 200*time.Millisecond
		if change != nil {
			change(o)
		}
	})
	close(m.release)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l, time.Second) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), s
}

// raw sends bytes and returns the statuses of the responses. Of several texts, each is sent
// after a pause. With half, the client then closes its side.
func raw(t testing.TB, addr string, half bool, texts ...string) (statuses []int, rest string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	for i, text := range texts {
		if i > 0 {
			time.Sleep(20 * time.Millisecond)
		}
		if _, err := io.WriteString(c, text); err != nil {
			break // the server has closed
		}
	}
	if half {
		_ = c.(*net.TCPConn).CloseWrite()
	}
	r := bufio.NewReader(c)
	for {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			left, _ := io.ReadAll(r)
			return statuses, err.Error() + string(left)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return append(statuses, resp.StatusCode), err.Error()
		}
		rest = string(body)
		if statuses = append(statuses, resp.StatusCode); resp.Close {
			return statuses, rest
		}
	}
}

// message returns a request with a body and its length.
func message(head, body string) string {
	return head + "\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

const (
	hostileChat = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json"
	hostileGet  = " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
)

// Each hostile request gets the right status, or the end of its connection.
func TestHostile(t *testing.T) {
	addr, s := listening(t, nil)
	good := chatBody("hi", "")
	utf16 := ""
	for _, c := range good {
		utf16 += string(c) + "\x00"
	}
	smuggled := "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for name, c := range map[string]struct {
		text string
		want []int // any of them; nil: no response
	}{
		"good":                   {message(hostileChat, good), []int{200}},
		"gzip":                   {message(hostileChat+"\r\nContent-Encoding: gzip", "\x1f\x8b\x08\x00"), []int{415}},
		"gzip transfer":          {hostileChat + "\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", []int{400, 501}},
		"UTF-16":                 {message(hostileChat, "\xff\xfe"+utf16), []int{400}},
		"UTF-16 without a mark":  {message(hostileChat, utf16), []int{400}},
		"UTF-16 charset":         {message(hostileChat+"; charset=utf-16", good), []int{415}},
		"latin-1":                {message(hostileChat, strings.Replace(good, "hi", "h\xe9", 1)), []int{400}},
		"latin-1 charset":        {message(hostileChat+"; charset=iso-8859-1", good), []int{415}},
		"NUL in JSON":            {message(hostileChat, strings.Replace(good, "hi", "h\x00i", 1)), []int{400}},
		"NUL in a header":        {message(hostileChat+"\r\nX-A: a\x00b", good), []int{400}},
		"NUL in a name":          {message(hostileChat+"\r\nX\x00A: b", good), []int{400}},
		"NUL in the path":        {"GET /v1/mod\x00els" + hostileGet, []int{400, 404}},
		"key twice":              {message(hostileChat, strings.Replace(good, "{", `{"model":"m",`, 1)), []int{400}},
		"escaped key twice":      {message(hostileChat, strings.Replace(good, "{", `{"\u006dodel":"m",`, 1)), []int{400}},
		"deep JSON":              {message(hostileChat, `{"messages":`+strings.Repeat("[", 20000)+strings.Repeat("]", 20000)+"}"), []int{400}},
		"deep tools":             {message(hostileChat, strings.TrimSuffix(good, "}")+`,"tools":`+strings.Repeat(`{"a":`, 9000)+"1"+strings.Repeat("}", 9001)), []int{400}},
		"truncated JSON":         {message(hostileChat, good[:20]), []int{400}},
		"trailing data":          {message(hostileChat, good+good), []int{400}},
		"large body":             {message(hostileChat, strings.Repeat(" ", 1<<17)), []int{413}},
		"large chunk":            {hostileChat + "\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n", []int{400}},
		"bad chunk":              {hostileChat + "\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", []int{400}},
		"two lengths":            {hostileChat + "\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}", []int{400}},
		"negative length":        {hostileChat + "\r\nContent-Length: -1\r\n\r\n{}", []int{400}},
		"length in hexadecimal":  {hostileChat + "\r\nContent-Length: 0x10\r\n\r\n{}", []int{400}},
		"huge length":            {hostileChat + "\r\nContent-Length: 99999999999999999999\r\n\r\n{}", []int{400}},
		"TE twice":               {hostileChat + "\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", []int{400, 501}},
		"space before the colon": {message(hostileChat+"\r\nHost : localhost", good), []int{400}},
		"two hosts":              {message(strings.Replace(hostileChat, "Host:", "Host: evil.example\r\nHost:", 1), good), []int{400}},
		"no host":                {"GET /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n", []int{400}},
		"no host, HTTP/1.0":      {"GET /v1/models HTTP/1.0\r\n\r\n", []int{403}},
		"rebound host":           {"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", []int{403}},
		"rebound URL":            {"GET http://evil.example/v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", []int{403}},
		"host with a user":       {"GET /v1/models HTTP/1.1\r\nHost: localhost@evil.example\r\nConnection: close\r\n\r\n", []int{400, 403}},
		"form of a page":         {message(strings.Replace(hostileChat, "application/json", "text/plain", 1)+"\r\nOrigin: http://evil.example", good), []int{403}},
		"form without origin":    {message(strings.Replace(hostileChat, "application/json", "text/plain", 1), good), []int{415}},
		"page of a file":         {message(hostileChat+"\r\nOrigin: null", good), []int{403}},
		"ollama from a page":     {message("POST /api/chat HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nOrigin: http://evil.example\r\nContent-Type: text/plain", good), []int{403}},
		"large headers":          {message(hostileChat+"\r\nX-A: "+strings.Repeat("a", 1<<20), good), []int{431}},
		"many headers":           {message(hostileChat+strings.Repeat("\r\nX-A: "+strings.Repeat("a", 100), 2000), good), []int{431}},
		"long path":              {"GET /" + strings.Repeat("a", 1<<20) + hostileGet, []int{431}},
		"dots":                   {"GET /v1/../../etc/passwd" + hostileGet, []int{404}},
		"escaped dots":           {"GET /v1/%2e%2e/%2e%2e/etc/passwd" + hostileGet, []int{404}},
		"escaped slashes":        {"GET /v1/models/..%2f..%2fetc%2fpasswd" + hostileGet, []int{404}},
		"backslashes":            {"GET /v1\\..\\etc" + hostileGet, []int{400, 404}},
		"bad escape":             {"GET /%zz" + hostileGet, []int{400}},
		"secrets":                {"GET /.git/config" + hostileGet, []int{404}},
		"all options":            {"OPTIONS *" + hostileGet, []int{400, 404}},
		"proxy":                  {"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\nConnection: close\r\n\r\n", []int{403, 404}},
		"method":                 {"BREW /v1/models" + hostileGet, []int{405}},
		"upgrade":                {"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n", []int{200}},
		"expectation":            {message(hostileChat+"\r\nExpect: tea", good), []int{417}},
		"no HTTP":                {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", nil},
		"HTTP/9":                 {"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", []int{505}},
		"lines without CR":       {"GET /health HTTP/1.1\nHost: localhost\nConnection: close\n\n", []int{200, 400}},
		"folded header":          {message(hostileChat+"\r\nX-A: a\r\n b", good), []int{200, 400}},
		"folded length":          {hostileChat + "\r\nX-A: a\r\n Content-Length: 500\r\nContent-Length: 2\r\n\r\n{}", []int{400}},
		"CL and TE":              {hostileChat + "\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled, []int{400}},
		"TE and CL":              {hostileChat + "\r\nTransfer-Encoding: chunked\r\nContent-Length: 500\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + smuggled, []int{400}},
	} {
		got, rest := raw(t, addr, true, c.text)
		if len(c.want) == 0 && len(got) > 0 && got[0] != 400 || len(c.want) > 0 && (len(got) != 1 || !slices.Contains(c.want, got[0])) {
			t.Errorf("%s: got %v %.200q, want one of %v", name, got, rest, c.want)
		}
		if strings.Contains(rest, "mm_requests_total") || strings.Contains(rest, "root:") {
			t.Errorf("%s: got %.200q", name, rest)
		}
	}
	until(t, s, "mm_requests_running", "0")
}

// Clients that are slow, or leave in the middle, lose their connection in time, whatever the
// route does with the body.
func TestSlowClients(t *testing.T) {
	key, err := api.ParseKeys("keys", "ann 0123456789abcdef\n")
	if err != nil {
		t.Fatal(err)
	}
	addr, s := listening(t, nil)
	locked, _ := listening(t, func(o *api.Options) { o.Keys = key })
	part := hostileChat + "\r\nContent-Length: 500\r\n\r\n{\"mess"
	alive := strings.Replace(part, "\r\nConnection: close", "", 1)
	for name, c := range map[string]struct {
		addr string
		half bool
		text []string
		want int // 0: no response
	}{
		"headers in drops":      {addr, false, strings.SplitAfter("GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: aaaaaaaaaaaaaaaaaaaaaaaaaaaa", ""), 0},
		"headers without end":   {addr, false, []string{"GET /health HTTP/1.1\r\nHost: localhost\r\n"}, 0},
		"nothing":               {addr, false, []string{""}, 0},
		"half closed headers":   {addr, true, []string{"GET /health HTTP/1.1\r\nHost: localhost\r\n"}, 0},
		"body without end":      {addr, false, []string{part}, 408},
		"body in drops":         {addr, false, append([]string{part}, strings.SplitAfter(strings.Repeat("a", 30), "")...), 408},
		"kept open":             {addr, false, []string{alive}, 408},
		"half closed body":      {addr, true, []string{part}, 400},
		"unread body":           {locked, false, []string{alive}, 401},
		"unread body, bad path": {addr, false, []string{strings.Replace(alive, "/v1/chat", "/v9/chat", 1)}, 404},
		"unread body, bad type": {addr, false, []string{strings.Replace(alive, "application/json", "text/plain", 1)}, 415},
		"unread body, get":      {addr, false, []string{"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"}, 200},
	} {
		start := time.Now()
		got, rest := raw(t, c.addr, c.half, c.text...)
		if c.want == 0 && len(got) > 0 && got[0] != 408 && got[0] != 400 || c.want > 0 && (len(got) != 1 || got[0] != c.want) {
			t.Errorf("%s: got %v %.200q, want %d", name, got, rest, c.want)
		}
		if d := time.Since(start); d > 3*time.Second {
			t.Errorf("%s: the connection lasted %v", name, d)
		}
	}
	until(t, s, "mm_requests_running", "0")
}

// A client that pauses longer than the limit of a body, after it, is served.
func TestPatience(t *testing.T) {
	addr, _ := listening(t, nil)
	get := "GET /health HTTP/1.1\r\nHost: localhost\r\n"
	first := get + "\r\n"
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	for _, text := range []string{first, get + "Connection: close\r\n\r\n"} {
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("got %v, %v", resp, err)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// descriptors returns the number of open files of the process, or 0 where it is not known.
func descriptors() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(list)
}

// mutate changes a request: bytes, lines, lengths, its end.
func mutate(rng *rand.Rand, text string) string {
	b := []byte(text)
	junk := []string{"\x00", "\xff", "\r\n", "\n", "\r", " ", ":", "{", "}", "[", "]", `"`, `\`, "null", "1e999", "-1", "99999999999999999999", "\\u0000", "\ud7ff", "%00", "../", "//", "Content-Length: 7\r\n", "Transfer-Encoding: chunked\r\n", "Host: evil.example\r\n", "Expect: 100-continue\r\n", `"n":16,`, `"stream":true,`, `"model":null,`}
	for range 1 + rng.IntN(6) {
		if len(b) == 0 {
			break
		}
		at := rng.IntN(len(b))
		end := min(len(b), at+1+rng.IntN(16))
		switch rng.IntN(6) {
		case 0:
			b[at] ^= byte(1 << rng.IntN(8))
		case 1:
			b = slices.Delete(b, at, end)
		case 2:
			b = slices.Insert(b, at, []byte(junk[rng.IntN(len(junk))])...)
		case 3:
			b = slices.Insert(b, at, b[at:end]...)
		case 4:
			b = slices.Insert(b, at, []byte(strings.Repeat(junk[rng.IntN(len(junk))], rng.IntN(500)))...)
		case 5:
			if rng.IntN(4) == 0 {
				b = b[:at]
			}
		}
	}
	return string(b)
}

// Generated requests (MM_HOSTILE of them, 300 by default) neither crash the server nor leave
// goroutines or open files, and none is its fault.
func TestHostileGenerated(t *testing.T) {
	count := 300
	if text := os.Getenv("MM_HOSTILE"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		count = n
	}
	addr, s := listening(t, func(o *api.Options) { o.HeaderTime, o.BodyTime = 30*time.Millisecond, 30*time.Millisecond })
	var seeds []string
	for name, q := range transcripts {
		if !strings.Contains(name, "error") {
			seeds = append(seeds, message(q[0]+" "+q[1]+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json", q[2]))
		}
	}
	slices.Sort(seeds)
	raw(t, addr, true, seeds[0])
	runtime.GC()
	goroutines, files := runtime.NumGoroutine(), descriptors()
	var mu sync.Mutex
	seen := map[int]int{}
	var all sync.WaitGroup
	const workers = 8
	for w := range workers {
		all.Go(func() {
			for i := w; i < count; i += workers {
				rng := rand.New(rand.NewPCG(uint64(i), 1))
				text := mutate(rng, seeds[rng.IntN(len(seeds))])
				texts := []string{text}
				if k := rng.IntN(len(text) + 1); rng.IntN(4) == 0 { // slower than the limits
					texts = []string{text[:k], text[k:], "", ""}
				}
				got, rest := raw(t, addr, true, texts...)
				mu.Lock()
				for _, status := range got {
					seen[status]++
					if status >= 500 && status != 501 && status != 505 {
						t.Errorf("request %d: got %d %.200q: %.500q", i, status, rest, text)
					}
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("%d requests: %v", count, seen)
	http.DefaultClient.CloseIdleConnections()
	for range 100 {
		if runtime.NumGoroutine() <= goroutines+2 && descriptors() <= files+2 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if g, f := runtime.NumGoroutine(), descriptors(); g > goroutines+2 || f > files+2 {
		t.Errorf("%d goroutines and %d open files, before %d and %d", g, f, goroutines, files)
	}
	until(t, s, "mm_requests_running", "0")
	if got, _ := raw(t, addr, true, fmt.Sprintf("GET /health%s", hostileGet)); !slices.Equal(got, []int{200}) {
		t.Errorf("at the end: got %v", got)
	}
}
