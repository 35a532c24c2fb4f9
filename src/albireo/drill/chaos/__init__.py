"""The drill `chaos`: topics under everything at once, judged from what each program wrote down."""
