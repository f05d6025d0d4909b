"""Images: give pictures labels."""

from heed.tasks.base.flags import ERRORS, JSON, NBEST, SORT
from heed.tasks.base.spec import Flag, TaskSpec

SPEC = TaskSpec(
    unit="picture",
    summary="Give pictures labels.",
    example="photos/",
    interfaces=("image_encoder",),
    flags=(
        NBEST,
        JSON,
        Flag("predict", "csv", bool, "CSV, with the probability of every label.", default=False),
        SORT,
        ERRORS,
        Flag(
            "look",
            "map",
            str,
            "What is drawn over the picture: attention, rollout (over the layers), gradient (Grad-CAM), saliency (of "
            "each pixel) or field (receptive field of a unit); repeatable.",
            several=True,
        ),
        Flag("look", "patch", str, "ROW,COLUMN from 0: look from this patch (field: this unit), not the class token."),
        Flag("look", "label", str, "Gradients of this label's score; the most probable by default."),
        Flag("evaluate", "page", str, "With --errors: also write a page (HTML) of these examples to this file."),
    ),
    uses=("heed predict {run} PICTURE", "heed look {run} PICTURE", "heed evaluate {run}"),
    next_command="heed look {run} PICTURE",
    takes=(("pictures", "{file}"),),
    architectures=("ForImageClassification", "ViTModel"),
)
