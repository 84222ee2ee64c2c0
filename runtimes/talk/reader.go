package talk

import (
	"strings"
	"unicode/utf8"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/tokenizer"
)

// ReadOptions configures a [Reader].
type ReadOptions struct {
	Stop     []string // strings that end the answer and are not part of it; none may be empty
	Thinking bool     // the answer starts inside reasoning, see [Prompt]
	Begins   bool     // the answer starts a text: the space that encoding adds is dropped
	Plain    bool     // everything is text: no calls, no reasoning
	// Tools are the names of the tools that the model was shown. Without any, a
	// guided dialect finds no calls: everything is text.
	Tools []string
}

// Delta is the result of one token. Several fields may be set.
type Delta struct {
	Text      string
	Reasoning string
	Calls     []Call
}

// Reader decodes an answer token by token.
type Reader struct {
	t       *Talk
	opt     ReadOptions
	decoder *tokenizer.Decoder
	state   state
	block   strings.Builder // of the open call
	header  strings.Builder // of the open message of harmony
	marked  bool            // a token of harmony came
	tool    string          // that the open message of harmony calls
	held    string          // text that may be the start of a stop string
	stopped bool
	word    string       // the stop string that ended the answer
	finder  *chat.Finder // of a guided dialect's calls

	tagged tagged // of reasoning between tags
	lead   string // text that may be a part of a tag
	bare   bool   // white space is dropped: reasoning ended
}

// tagged is where an answer is that reasons between tags.
type tagged int

const (
	noTags    tagged = iota
	beforeTag        // the answer may begin with a tag
	withinTags
)

// state is the kind of content that a token belongs to.
type state int

const (
	inText state = iota
	inReasoning
	inCall
	inHeader // role and channel of a message of harmony
)

// Reader returns a reader of an answer.
func (t *Talk) Reader(opt ReadOptions) *Reader {
	r := &Reader{t: t, opt: opt, decoder: t.tok.Decoder(tokenizer.DecodeOptions{Continued: !opt.Begins})}
	switch {
	case opt.Plain:
	case t.tags[0] != "":
		if r.tagged = beforeTag; opt.Thinking {
			r.tagged = withinTags
		}
	case opt.Thinking:
		r.state = inReasoning
	case t.beginsInHeader():
		r.state = inHeader
	}
	if t.dialect.Guided && len(opt.Tools) > 0 && !opt.Plain {
		r.finder = chat.NewFinder(t.dialect, t.open != tokenizer.None, t.close != tokenizer.None, opt.Tools)
	}
	return r
}

// Next reads a token. It holds back text while a character is incomplete or a stop
// string may have started. After a stop string, Stopped returns true and Next
// returns nothing.
func (r *Reader) Next(id int32) Delta {
	var d Delta
	if r.stopped {
		return d
	}
	if r.finder != nil && id != tokenizer.None {
		switch {
		case id == r.t.open && r.state != inCall:
			r.put(&d, r.decoder.Flush())
			r.state = inText
			r.found(&d, r.finder.Begin())
			return d
		case id == r.t.close && r.finder.Within():
			r.put(&d, r.decoder.Flush())
			r.found(&d, r.finder.End())
			return d
		case (id == r.t.args || id == r.t.callID) && r.finder.Within():
			r.put(&d, r.decoder.Flush())
			r.found(&d, r.finder.Add(r.t.tok.Piece(id)))
			return d
		}
	}
	to, marker := r.turn(id)
	if !marker && r.state == inHeader && id != tokenizer.None && r.t.tok.Type(id) == tokenizer.Control {
		r.put(&d, r.decoder.Flush()+" ") // <|constrain|>, which names the type
		return d
	}
	if !marker {
		r.put(&d, r.decoder.Next(id))
		return d
	}
	r.put(&d, r.decoder.Flush())
	if r.state == inText && !r.stopped {
		r.release(&d)
	}
	if r.state == inCall {
		d.Calls = append(d.Calls, r.call("")...)
	}
	switch {
	case to == inHeader && r.state == inHeader:
		r.header.WriteByte(' ') // between the role and the channel
	case to == inHeader:
		r.header.Reset()
	}
	r.state = to
	return d
}

// turn returns the state after a marker.
func (r *Reader) turn(id int32) (to state, marker bool) {
	if r.opt.Plain || id == tokenizer.None {
		return r.state, false
	}
	guided := r.t.dialect.Guided
	switch {
	case r.t.channel != tokenizer.None && (id == r.t.start || id == r.t.channel):
		r.marked = true
		return inHeader, true
	case r.state == inHeader && id == r.t.content:
		r.marked = true
		if r.tool = chat.Recipient(r.header.String()); r.tool != "" && r.t.dialect.Form == chat.Channel {
			return inCall, true
		}
		if strings.Contains(r.header.String(), analysis) {
			return inReasoning, true
		}
		return inText, true
	case r.finder != nil && r.finder.Within():
	case guided && (id == r.t.open || id == r.t.close):
	case id == r.t.open && r.state != inCall:
		return inCall, true
	case id == r.t.close && r.state == inCall:
		return inText, true
	case id == r.t.thinking && r.state == inText:
		return inReasoning, true
	case id == r.t.thought && r.state == inReasoning:
		r.bare = true
		return inText, true
	}
	return r.state, false
}

// put adds text according to the state.
func (r *Reader) put(d *Delta, text string) {
	// A model may produce invalid UTF-8, which callers should not have to handle.
	text = strings.ToValidUTF8(text, "\uFFFD")
	switch r.state {
	case inReasoning:
		d.Reasoning += text
	case inHeader:
		if before := r.header.String(); !r.marked && r.t.beginsInHeader() && !mayBeHeader(before+text) {
			r.state = inText
			r.header.Reset()
			r.answer(d, before+text)
			return
		}
		if r.header.Len() <= maxHeader {
			r.header.WriteString(text)
		}
	case inCall:
		if r.block.Len() <= abi.MaxToolCall {
			r.block.WriteString(text)
		}
	default:
		if r.tagged != noTags {
			text = r.untagged(d, text)
		}
		if r.bare {
			text = strings.TrimLeft(text, " \r\n")
			r.bare = text == ""
		}
		if r.finder != nil {
			r.found(d, r.finder.Add(text))
			return
		}
		r.answer(d, text)
	}
}

// untagged takes the reasoning at the start of an answer and returns the text after it.
func (r *Reader) untagged(d *Delta, text string) string {
	open, closing := r.t.tags[0], r.t.tags[1]
	text = r.lead + text
	r.lead = ""
	if r.tagged == beforeTag {
		start := strings.TrimLeft(text, " \r\n")
		rest, found := strings.CutPrefix(start, open)
		switch {
		case found:
			r.tagged, text = withinTags, rest
		case strings.HasPrefix(open, start):
			r.lead = text
			return ""
		default:
			r.tagged = noTags
			return text
		}
	}
	before, after, found := strings.Cut(text, closing)
	if found {
		d.Reasoning += before
		r.tagged, r.bare = noTags, true
		return after
	}
	free := len(text) - maybeStop(text, []string{closing})
	d.Reasoning += text[:free]
	r.lead = text[free:]
	return ""
}

// Reasons reports whether the next token may be one of reasoning.
func (r *Reader) Reasons() bool { return r.state == inReasoning || r.tagged == withinTags }

// maxHeader limits the bytes of a role and a channel that are kept.
const maxHeader = 1 << 10

// found adds the results of the finder.
func (r *Reader) found(d *Delta, list []chat.Found) {
	for _, f := range list {
		switch {
		case r.stopped:
		case f.Call != nil:
			r.release(d)
			d.Calls = append(d.Calls, *f.Call)
		default:
			r.answer(d, f.Text)
		}
	}
}

// answer adds text of the answer, up to a stop string.
func (r *Reader) answer(d *Delta, text string) {
	r.held += text
	if at, word := firstOf(r.held, r.opt.Stop); at >= 0 {
		d.Text += r.held[:at]
		r.held, r.stopped, r.word = "", true, word
		return
	}
	free := len(r.held) - maybeStop(r.held, r.opt.Stop)
	d.Text += r.held[:free]
	r.held = r.held[free:]
}

// release emits held text.
func (r *Reader) release(d *Delta) {
	d.Text += r.held
	r.held = ""
}

// call parses the block that ended; fault is set if it did not end properly.
func (r *Reader) call(fault string) []Call {
	block := r.block.String()
	r.block.Reset()
	list, err := r.parse(block)
	if fault == "" && err != nil {
		fault = err.Error()
	}
	if fault != "" {
		return []Call{{Fault: fault, Block: block[:min(len(block), 1024)]}}
	}
	return list
}

// parse parses the block of a call, or the arguments of the tool that the header names.
func (r *Reader) parse(block string) ([]Call, error) {
	if r.t.dialect.Form != chat.Channel {
		return chat.ParseCalls(block)
	}
	c, err := chat.ParseArguments(r.tool, block)
	return []Call{c}, err
}

// End returns the text held back at the end of the answer. A truncated call has a
// Fault.
func (r *Reader) End() Delta {
	var d Delta
	if r.stopped {
		return d
	}
	r.put(&d, complete(r.decoder.Flush()))
	if lead := r.lead; lead != "" {
		if r.lead = ""; r.tagged == withinTags {
			d.Reasoning += lead
		} else {
			r.tagged = noTags
			r.put(&d, lead)
		}
	}
	if r.finder != nil {
		r.found(&d, r.finder.Flush())
	}
	switch {
	case r.stopped:
	case r.state == inCall && r.t.dialect.Form == chat.Channel:
		d.Calls = append(d.Calls, r.call("")...) // the end of the turn ends it, too
	case r.state == inCall:
		d.Calls = append(d.Calls, r.call("the answer ended within the call")...)
	default:
		r.release(&d)
	}
	r.state = inText
	return d
}

// complete returns a text without the start of a character at its end: a limit of tokens cut
// it.
func complete(text string) string {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRuneInString(tail) {
				return text[:len(text)-n]
			}
			break
		}
	}
	return text
}

// Pending returns the text after a call that may begin another one.
func (r *Reader) Pending() string {
	if r.finder == nil {
		return ""
	}
	return r.finder.Held()
}

// Stopped reports whether a stop string ended the answer.
func (r *Reader) Stopped() bool { return r.stopped }

// StopWord returns the stop string that ended the answer, or "".
func (r *Reader) StopWord() string { return r.word }

// firstOf returns the index of the first occurrence of any of the strings and that string,
// or -1.
func firstOf(text string, stops []string) (first int, word string) {
	first = -1
	for _, s := range stops {
		if at := strings.Index(text, s); s != "" && at >= 0 && (first < 0 || at < first) {
			first, word = at, s
		}
	}
	return first, word
}

// maybeStop returns the length of the longest suffix of text that is a prefix of a
// stop string.
func maybeStop(text string, stops []string) int {
	longest := 0
	for _, s := range stops {
		for n := min(len(s)-1, len(text)); n > longest; n-- {
			if strings.HasSuffix(text, s[:n]) {
				longest = n
			}
		}
	}
	return longest
}
