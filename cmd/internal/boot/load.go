package boot

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// configFlag names the flag that names the configuration file.
const configFlag = "config"

// keyNote is the annotation of a flag whose key has another name.
const keyNote = "key"

// ListKey names the list that a flag of fs, which may be repeated, adds to: it
// is the key in the environment and the file. There each of the list may also be
// a map, which is given to the flag as "name=value,name=value"; for a list in
// the map that is "name=value,value". The flag's value is a pflag.SliceValue. It
// panics without such a flag.
func ListKey(fs *pflag.FlagSet, flag, key string) {
	if err := fs.SetAnnotation(flag, keyNote, []string{key}); err != nil {
		panic(err)
	}
}

// Key is what a flag is called in the environment and the file.
func Key(f *pflag.Flag) string {
	if note := f.Annotations[keyNote]; len(note) == 1 {
		return note[0]
	}
	return f.Name
}

// Load gives each flag of fs that is not on the command line the value of its
// environment variable (--stripe-unit: MANIFOLD_STRIPE_UNIT), else the value of
// its key in the YAML file that --config names. What was given counts as
// Changed. An unknown key, a value of the wrong form or a file that cannot be
// read is an ErrUsage that names file, line and the nearest known key.
func Load(fs *pflag.FlagSet) error {
	v := viper.New()
	v.SetEnvPrefix("manifold")
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv()
	known := map[string]*pflag.Flag{}
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Name != configFlag && f.Name != "help" {
			known[Key(f)] = f
		}
	})
	var cfg file
	if f := fs.Lookup(configFlag); f != nil {
		if !f.Changed && v.IsSet(configFlag) {
			if err := f.Value.Set(v.GetString(configFlag)); err != nil {
				return err
			}
		}
		if path := f.Value.String(); path != "" {
			var err error
			if cfg, err = readFile(path, known); err != nil {
				return err
			}
			if err := v.MergeConfigMap(cfg.values); err != nil {
				return Usage("%s: %v", path, err)
			}
		}
	}
	var errs []error
	fs.VisitAll(func(f *pflag.Flag) {
		key := Key(f)
		if known[key] == nil || f.Changed || !v.IsSet(key) {
			return
		}
		source := cfg.where(key)
		if env := envName(key); os.Getenv(env) != "" {
			source = "environment variable " + env
		}
		if err := set(f, v.Get(key)); err != nil {
			errs = append(errs, Usage("%s: %v", source, err))
		}
	})
	return errors.Join(errs...)
}

func envName(key string) string {
	return "MANIFOLD_" + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
}

// set gives f a value from the environment (a string) or a file (a string, or
// strings for a list).
func set(f *pflag.Flag, value any) error {
	var err error
	switch x := value.(type) {
	case []string:
		list, ok := f.Value.(pflag.SliceValue)
		if !ok {
			return fmt.Errorf("%s: one value, not a list", Key(f))
		}
		err = list.Replace(x)
	default:
		err = f.Value.Set(fmt.Sprint(x))
	}
	if err != nil {
		form := map[string]string{
			"bool": "true or false", "duration": "a time such as 90s or 2m", "int": "a whole number", "size": "a size such as 64KiB or 1MiB",
		}[f.Value.Type()]
		if form == "" {
			return fmt.Errorf("%s: %w", Key(f), err)
		}
		return fmt.Errorf("%s: %q is not %s", Key(f), fmt.Sprint(value), form)
	}
	f.Changed = true
	return nil
}
