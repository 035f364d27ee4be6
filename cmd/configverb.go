package cmd

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leaderrun/leaderrun/internal/config"
)

func configCommand() *cobra.Command {
	command := &cobra.Command{
		Use:     "config [flags of a run]",
		Short:   "Every setting, its value and where it comes from",
		Long:    "Every setting that a run would have here, its value and where it comes from. Passwords are not shown.",
		Example: "  leaderrun config\n  sudo -u cron leaderrun config --ttl 1m -o json",
		Args:    noArguments,
	}
	a := take(command, settingNames(newFlags())...)
	output := outputFlag(command)
	command.RunE = func(*cobra.Command, []string) error {
		c, s, err := a.load()
		if err != nil {
			return err
		}
		views := settingViews(c, s)
		return output.print(views, func(b *bytes.Buffer) {
			rows := [][]string{{"SETTING", "VALUE", "FROM"}}
			for _, v := range views {
				rows = append(rows, []string{v.Name, cmp.Or(v.Value, nothing), v.From})
			}
			table(b, rows)
		})
	}
	return command
}

type settingView struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"`
}

func settingViews(c config.Config, s *sources) []settingView {
	derived := map[string]string{"ttl": config.Text(c.TTL), "renew": config.Text(c.Renew), "retry": config.Text(c.Retry)}
	var views []settingView
	s.flags.VisitAll(func(f *pflag.Flag) {
		v := settingView{Name: f.Name, Value: f.DefValue, From: "default"}
		value, at := s.find(f.Name)
		switch {
		case f.Name == nowFlag:
			return
		case f.Name == "config":
			v.Value, v.From = s.file, cmp.Or(s.name("config"), "default")
		case at != nowhere && !s.overruled(f.Name):
			v.Value, v.From = value, s.name(f.Name)
		case derived[f.Name] != "":
			v.Value = derived[f.Name]
			if f.Name == "ttl" {
				v.From = cmp.Or(s.name("profile"), v.From)
			}
		}
		if f.Name == "store" {
			v.Value = masked(v.Value)
		} else {
			v.Value = maskedWords(v.Value)
		}
		views = append(views, v)
	})
	return views
}

// maskedWords is a text, that of a hook say, with its addresses masked.
func maskedWords(text string) string {
	words := strings.Split(text, " ")
	for i, word := range words {
		if strings.Contains(word, "://") {
			words[i] = masked(word)
		}
	}
	return strings.Join(words, " ")
}

// masked is an address without its passwords; files that hold them are told.
func masked(address string) string {
	shown, _ := eachPassword(address, func(password string) (string, error) { // no error comes from here
		if strings.HasPrefix(password, "file:") {
			return password, nil
		}
		return "***", nil
	})
	_, rest, _ := strings.Cut(shown, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 && strings.Contains(rest[end:], "@") {
		return config.Shown(address) // a password that is not escaped looks like a path
	}
	if !strings.Contains(shown, "://") && !strings.HasPrefix(shown, "file:") {
		return "…" // no address: who knows what it is
	}
	return shown
}
