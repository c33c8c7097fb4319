"""What the phases of a cycle hand to each other."""


class EagleDraftInput:
    """Where the next draft starts from."""

    def __init__(self, verified_id=None):
        self.verified_id = verified_id


class EagleVerifyInput:
    """The tree to verify."""

    def __init__(self, draft_token_num, spec_steps, topk, seq_lens_cpu):
        self.draft_token_num = draft_token_num
        self.spec_steps = spec_steps
        self.topk = topk
        self.seq_lens_cpu = seq_lens_cpu


class EagleVerifyOutput:
    """What was accepted. `accept_length_per_req_cpu` has one count per request, the bonus token left out."""

    def __init__(self, draft_input, verified_id, accept_length_per_req_cpu):
        self.draft_input = draft_input
        self.logits_output = None
        self.verified_id = verified_id
        self.accept_length_per_req_cpu = accept_length_per_req_cpu
