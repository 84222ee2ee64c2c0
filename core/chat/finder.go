package chat

import (
	"strings"

	"mm-abi.org/mm/abi"
)

// Finder finds calls in a text that arrives in pieces. Text that may begin a call is
// held back; what turns out to be none is text. The zero value is invalid.
type Finder struct {
	d     Dialect
	tools []string // that may be called, for a call without an opening marker
	// Open and Close report that the marker is a token, whose arrival is stated by
	// Begin and End, and which no text spells.
	open, closing bool

	held  string // text that may begin a call
	begun bool   // text that is not white space came before
	after bool   // a call came before; white space between calls is dropped
	in    bool
	bare  bool // the open call has no opening marker
	block strings.Builder
	value value
}

// NewFinder returns a finder at the start of a turn. Open and closing report which
// markers are tokens.
func NewFinder(d Dialect, open, closing bool, tools []string) *Finder {
	return &Finder{d: d, tools: tools, open: open || d.Open == "", closing: closing}
}

// Found is a part of the text, in order: text, or a call.
type Found struct {
	Text string
	Call *Call
}

// Held returns the text that is held back.
func (f *Finder) Held() string { return f.held }

// Within reports whether a call is open.
func (f *Finder) Within() bool { return f.in }

// Begin opens a call at the opening token.
func (f *Finder) Begin() []Found {
	if f.in {
		return nil
	}
	out := f.release(nil)
	f.start(false)
	return out
}

// End closes a call at the closing token; without an open one it does nothing.
func (f *Finder) End() []Found {
	if !f.in {
		return nil
	}
	return f.finish(nil, "")
}

// Add takes a piece of text.
func (f *Finder) Add(text string) (out []Found) {
	for text != "" {
		if f.in {
			out, text = f.inside(out, text)
		} else {
			out, text = f.outside(out, text)
		}
	}
	return out
}

// Flush ends the text. A call that is not complete has a fault; one without an
// opening marker is text.
func (f *Finder) Flush() (out []Found) {
	if !f.in {
		return f.release(nil)
	}
	return f.finish(nil, "the answer ended within the call")
}

// outside takes text outside of calls and returns the rest after an opening marker.
func (f *Finder) outside(out []Found, text string) ([]Found, string) {
	before, rest, found := f.d.Opening(f.held+text, f.begun, f.open, f.tools)
	if f.after && strings.Trim(before, space) == "" {
		if found == None {
			f.held += text // white space, and what may begin a marker
			return out, ""
		}
		before = ""
	}
	out = appendText(out, before)
	f.begun = f.begun || strings.Trim(before, space) != ""
	if found == None {
		f.held, f.after = rest, false
		return out, ""
	}
	f.held, f.after = "", false
	f.start(found == Alone)
	return out, rest
}

// Opened is the kind of a call that a text opens.
type Opened int

// The kinds.
const (
	None   Opened = iota
	Marked        // after an opening marker
	Alone         // an object without one
)

// Opening looks for the start of a call in text outside of calls. Before is text; rest
// is the start of the block or, if none is open, text that may begin one. Begun
// reports that text other than white space came before, token that the opening marker
// is a token, and tools are the names that an object without a marker may have.
func (d Dialect) Opening(text string, begun, token bool, tools []string) (before, rest string, found Opened) {
	if d.Form == Bare && !begun {
		at := len(text) - len(strings.TrimLeft(text, space))
		switch opens(text, tools) {
		case yes:
			return text[:at], text[at:], Alone
		case maybe:
			return "", text, None
		}
	}
	if token {
		return text, "", None
	}
	if before, rest, ok := strings.Cut(text, d.Open); ok {
		return before, rest, Marked
	}
	free := len(text) - overlap(text, d.Open)
	return text[:free], text[free:], None
}

// inside takes text of a call and returns the rest after its end.
func (f *Finder) inside(out []Found, text string) ([]Found, string) {
	if f.block.Len() > abi.MaxToolCall && !f.closing {
		return f.finish(out, ""), text // a fault, or text
	}
	if f.block.Len() <= abi.MaxToolCall+len(f.d.Close) {
		f.block.WriteString(text)
	}
	if f.closing {
		return out, ""
	}
	block := f.block.String()
	if f.d.Form == Named && f.value.at == 0 {
		at := strings.Index(block, Args)
		if at < 0 {
			return out, ""
		}
		f.value.at = at + len(Args)
	}
	end, ok := f.value.scan(block)
	if f.d.Close == "" {
		if !ok {
			return out, ""
		}
		return f.closeAt(out, block, end, end)
	}
	from := 0
	if ok {
		from = end
	} else if !f.value.broken {
		return out, ""
	}
	at := strings.Index(block[from:], f.d.Close)
	if at < 0 {
		return out, ""
	}
	return f.closeAt(out, block, from+at, from+at+len(f.d.Close))
}

// closeAt ends the call at end and returns the text from rest on.
func (f *Finder) closeAt(out []Found, block string, end, rest int) ([]Found, string) {
	f.block.Reset()
	f.block.WriteString(block[:end])
	return f.finish(out, ""), block[rest:]
}

// start opens a call.
func (f *Finder) start(bare bool) {
	f.in, f.bare, f.begun = true, bare, true
	f.block.Reset()
	f.value = value{}
}

// finish ends the open call; fault is set if it did not end properly.
func (f *Finder) finish(out []Found, fault string) []Found {
	block := f.block.String()
	f.block.Reset()
	f.in = false
	calls, err := ParseCalls(block)
	if fault == "" && err != nil {
		fault = err.Error()
	}
	switch {
	case fault != "" && f.bare:
		return appendText(out, block)
	case fault != "":
		return append(out, Found{Call: &Call{Fault: fault, Block: block[:min(len(block), maxBlock)]}})
	}
	for i := range calls {
		out = append(out, Found{Call: &calls[i]})
	}
	f.after = true
	return out
}

// maxBlock bounds the text of a malformed call that is kept.
const maxBlock = 1024

// release returns the held text; white space after a call is dropped.
func (f *Finder) release(out []Found) []Found {
	if f.after && strings.Trim(f.held, space) == "" {
		f.held = ""
	}
	out = appendText(out, f.held)
	f.begun = f.begun || strings.Trim(f.held, space) != ""
	f.held = ""
	return out
}

// appendText appends text, joined with text before it.
func appendText(out []Found, text string) []Found {
	switch n := len(out); {
	case text == "":
		return out
	case n > 0 && out[n-1].Call == nil:
		out[n-1].Text += text
		return out
	}
	return append(out, Found{Text: text})
}

// overlap returns the length of the longest suffix of text that is a proper prefix
// of a marker.
func overlap(text, marker string) int {
	for n := min(len(marker)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, marker[:n]) {
			return n
		}
	}
	return 0
}
