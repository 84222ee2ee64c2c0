package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes/talk"
)

// ChatHelp lists the slash commands of a conversation.
const ChatHelp = `/help         show this list
/reset        clear the conversation
/system TEXT  set the system prompt; without TEXT, remove it
/image FILE   attach an image to the next turn; also /audio and /video
/save FILE    save the conversation to FILE
/load FILE    load a conversation from FILE
/bye          end
//TEXT        a turn that starts with a slash`

// Command runs a slash command. It returns a note for the user, and whether the
// conversation ends.
func (c *Conversation) Command(line string) (note string, last bool, err error) {
	name, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
	arg = strings.TrimSpace(arg)
	switch name {
	case "/help", "/?":
		return ChatHelp, false, nil
	case "/bye", "/exit", "/quit":
		return "", true, nil
	case "/reset":
		c.Reset()
		return "", false, nil
	case "/system":
		c.System(arg)
		return "", false, nil
	case "/image", "/audio", "/video", "/save", "/load":
	default:
		return "", false, fmt.Errorf("unknown command %s; /help lists them", name)
	}
	if arg == "" {
		return "", false, fmt.Errorf("%s: missing file name", name)
	}
	switch name {
	case "/save":
		err = fsx.Replace(arg, 0o600, c.Save)
		note = fmt.Sprintf("saved %d turns to %s", len(c.Messages()), arg)
	case "/load":
		err = c.load(arg)
		note = fmt.Sprintf("loaded %d turns from %s", len(c.Messages()), arg)
	default:
		err = c.attach(abi.Modality(name[1:]), arg)
		note = filepath.Base(arg) + " is attached to the next turn"
	}
	return note, false, err
}

// attach adds a file to the start of the next turn.
func (c *Conversation) attach(in abi.Modality, file string) error {
	path, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err != nil {
		return err
	} else if info.IsDir() != (in == abi.Video) && !info.Mode().IsRegular() {
		return fmt.Errorf("%s: not a regular file", file)
	}
	c.Show(talk.Part{Type: in, Path: path})
	return nil
}

func (c *Conversation) load(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := c.Restore(f); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
